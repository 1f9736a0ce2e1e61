// Options and connection of the NATS programs.
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { connect, credsAuthenticator } from '@nats-io/transport-node';

/**
 * Parses the command line. Secrets come only from the environment: NATS_USER and
 * NATS_PASSWORD, or NATS_CREDS, the path of a credentials file.
 * @param {import('node:util').ParseArgsConfig['options']} more additional options of the program
 */
export function options(more) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      nats: { type: 'string', default: process.env.NATS_URL ?? 'nats://127.0.0.1:4222' },
      tenant: { type: 'string', default: 'default' },
      inbox: { type: 'string', default: '_INBOX' }, // some NATS users have another prefix (docs/nats-security.md)
      ...more,
    },
  });
  return { ...values, positionals };
}

/**
 * Connects. If the connection is lost later, the client reconnects, without a limit.
 * @param {{nats: string, inbox: string}} options
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
 * Sends buffered messages and acks, and closes the connection. Stops waiting after two
 * seconds, in case the server is unreachable.
 * @param {import('@nats-io/transport-node').NatsConnection} nc
 */
export async function leave(nc) {
  const limit = setTimeout(() => nc.close(), 2000);
  await Promise.race([nc.drain(), nc.closed()]);
  clearTimeout(limit);
}

/**
 * Runs a program. If it throws, run prints the message and sets exit code 1.
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
