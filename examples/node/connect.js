// What both programs begin with: their options, and the connection.
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { connect, credsAuthenticator } from '@nats-io/transport-node';

/**
 * Reads the command line. Secrets come from the environment alone: NATS_USER and
 * NATS_PASSWORD, or NATS_CREDS, the path of a credentials file.
 * @param {import('node:util').ParseArgsConfig['options']} more what the program has beside the common options
 */
export function options(more) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      nats: { type: 'string', default: process.env.NATS_URL ?? 'nats://127.0.0.1:4222' },
      tenant: { type: 'string', default: 'default' },
      inbox: { type: 'string', default: '_INBOX' }, // docs/nats-security.md: some users have their own
      ...more,
    },
  });
  return { ...values, positionals };
}

/**
 * Connects. When the connection is lost later, it is made again for as long as that takes.
 * @param {{nats: string, inbox: string}} from the options
 */
export async function connectTo({ nats, inbox }) {
  const creds = process.env.NATS_CREDS;
  try {
    return await connect({
      servers: nats.split(','),
      inboxPrefix: inbox,
      maxReconnectAttempts: -1,
      user: process.env.NATS_USER,
      pass: process.env.NATS_PASSWORD,
      authenticator: creds ? credsAuthenticator(await readFile(creds)) : undefined,
    });
  } catch (err) {
    throw new Error(`cannot connect to NATS at ${nats}: ${err.message}`, { cause: err });
  }
}

/**
 * Sends what was published and acknowledged, and closes; two seconds are enough where
 * the server is gone.
 * @param {import('@nats-io/transport-node').NatsConnection} nc
 */
export async function leave(nc) {
  const limit = setTimeout(() => nc.close(), 2000);
  await Promise.race([nc.drain(), nc.closed()]);
  clearTimeout(limit);
}

/**
 * Runs a program: what it throws is one line and exit code 1.
 * @param {() => Promise<void>} main
 */
export async function run(main) {
  try {
    await main();
  } catch (err) {
    console.error(err.message);
    process.exitCode = 1;
  }
}
