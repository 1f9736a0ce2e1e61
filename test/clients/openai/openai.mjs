// openai-node: the first and the newest release of each line, as far as their features agree. Each
// dependency in package.json is one release.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';

const { CLIENTS_HTTP: http = 'http://127.0.0.1:8080', CLIENTS_KEY: key = 'any' } = process.env;
const { dependencies } = JSON.parse(await readFile(new URL('package.json', import.meta.url)));
const messages = [{ role: 'user', content: 'tell me of the sea' }];
const reply = /^You wrote 5 words /;

for (const release of Object.keys(dependencies)) {
  const { default: OpenAI, toFile } = await import(release);
  const client = new OpenAI({ baseURL: `${http}/v1`, apiKey: key });

  test(`${release}: a chat`, async () => {
    const { choices } = await client.chat.completions.create({ model: 'sandbox-chat-fast', messages });
    assert.match(choices[0].message.content, reply);
  });

  // In slow streams genbus sends comments before, between and after the chunks.
  for (const [kind, headers] of [['inline', {}], ['queued', { 'Idempotency-Key': `${release}-${Date.now()}` }]]) {
    test(`${release}: a slow ${kind} stream`, async () => {
      const model = 'sandbox-chat:delay_ms=200,chunks=4,chunk_interval_ms=100';
      let content = '';
      for await (const chunk of await client.chat.completions.create({ model, messages, stream: true }, { headers })) {
        content += chunk.choices[0]?.delta?.content ?? '';
      }
      assert.match(content, reply);
    });
  }

  test(`${release}: models and errors`, async () => {
    assert.equal((await client.models.retrieve('sandbox-chat-fast')).id, 'sandbox-chat-fast');
    await assert.rejects(client.chat.completions.create({ model: 'none', messages }), { status: 404, code: 'model_not_found' });
  });

  test(`${release}: a video of a picture`, { skip: !client.videos }, async () => {
    const input_reference = await toFile(Buffer.from('\x89PNG\r\n\x1a\n the first frame', 'latin1'), 'frame.png', { type: 'image/png' });
    const { id } = await client.videos.create({ model: 'sandbox-videos', prompt: 'a cat', seconds: '4', input_reference });
    assert.equal((await client.videos.retrieve(id)).object, 'video');
  });
}
