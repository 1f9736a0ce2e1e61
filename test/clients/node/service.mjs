// Addresses and keys of genbus. The defaults are those of `genbus serve --sandbox`.
export const http = process.env.CLIENTS_HTTP ?? 'http://127.0.0.1:8080';
export const nats = process.env.CLIENTS_NATS ?? 'nats://127.0.0.1:4222';
export const key = process.env.CLIENTS_KEY ?? 'any';
export const tenant = process.env.CLIENTS_TENANT ?? 'default';

/** Returns a fetch that counts its calls. */
export function counting() {
  const counted = async (url, init) => {
    counted.calls++;
    return fetch(url, init);
  };
  counted.calls = 0;
  return counted;
}

/** Returns the values of an iterable as an array. */
export async function all(iterable) {
  const values = [];
  for await (const value of iterable) {
    values.push(value);
  }
  return values;
}

/** Returns a key that is unique across runs. */
export const unique = (name) => `${name}-${Date.now()}-${process.pid}`;

// The beginning of the sandbox's reply to `prompt`.
export const prompt = 'tell me of the sea';
export const reply = /^You wrote 5 words in 18 characters\./;
