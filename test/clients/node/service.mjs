// Where the scripts find genbus: what `service serve --sandbox` listens on, unless the
// environment says otherwise.
export const http = process.env.CLIENTS_HTTP ?? 'http://127.0.0.1:8080';
export const nats = process.env.CLIENTS_NATS ?? 'nats://127.0.0.1:4222';
export const key = process.env.CLIENTS_KEY ?? 'any';
export const tenant = process.env.CLIENTS_TENANT ?? 'default';

/** A fetch that counts the requests of a client. */
export function counting() {
  const counted = async (url, init) => {
    counted.calls++;
    return fetch(url, init);
  };
  counted.calls = 0;
  return counted;
}

/** What an iterable gives, in an array. */
export async function all(iterable) {
  const values = [];
  for await (const value of iterable) {
    values.push(value);
  }
  return values;
}

/** A key that no earlier run has used. */
export const unique = (name) => `${name}-${Date.now()}-${process.pid}`;

// What the sandbox answers to `prompt`; more text may follow.
export const prompt = 'tell me of the sea';
export const reply = /^You wrote 5 words in 18 characters\./;
