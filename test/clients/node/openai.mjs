// openai-node: chats, videos, models and errors.
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import OpenAI, { toFile } from 'openai';
import { all, counting, http, key, prompt, reply, unique } from './service.mjs';

const fetch = counting();
const client = new OpenAI({ baseURL: `${http}/v1`, apiKey: key, fetch });
const model = 'sandbox-chat-fast';
const messages = [{ role: 'user', content: prompt }];
const video = { model: 'sandbox-videos:duration_ms=300', prompt: 'a cat', seconds: '4', size: '1280x720' };

test('a chat', async () => {
  const { choices, usage } = await client.chat.completions.create({ model, messages });
  assert.match(choices[0].message.content, reply);
  assert.equal(choices[0].finish_reason, 'stop');
  assert.equal(usage.total_tokens, 25);
});

test('a streamed chat, with its usage', async () => {
  const stream = await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true }, top_k: 40 });
  let content = '', usage = null, blocks = 0;
  for await (const chunk of stream) {
    blocks++;
    content += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.match(content, reply);
  assert.equal(usage.total_tokens, 25);
  assert.equal(blocks, 23);
});

test('tools, whole and streamed', async () => {
  const tools = [{ type: 'function', function: { name: 'count', parameters: { type: 'object', properties: {} } } }];
  const ask = [{ role: 'user', content: 'use the tool' }];
  const { message } = (await client.chat.completions.create({ model, messages: ask, tools })).choices[0];
  const [call] = message.tool_calls;
  assert.equal(call.function.name, 'count');
  const streamed = await client.chat.completions.stream({ model, messages: ask, tools }).finalChatCompletion();
  assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
  const end = await client.chat.completions.create({ model, tools, messages: [...ask, message, { role: 'tool', tool_call_id: call.id, content: '1' }] });
  assert.equal(end.choices[0].finish_reason, 'stop');
});

test('a stream that breaks is an error', async () => {
  const stream = await client.chat.completions.create({ model: 'sandbox-chat:drop_after_chunks=2', messages, stream: true });
  await assert.rejects(async () => {
    for await (const _ of stream);
  }, { name: 'Error', code: 'stream_truncated' });
});

/** Polls a video at the interval given by genbus until it has ended. The package has no helper for this. */
async function ended(id) {
  for (;;) {
    const { data, response } = await client.videos.retrieve(id).withResponse();
    if (data.status !== 'queued' && data.status !== 'in_progress') {
      return data;
    }
    const after = Number(response.headers.get('openai-poll-after-ms'));
    assert.ok(after > 0, 'openai-poll-after-ms');
    await wait(after);
  }
}

test('a video, from its creation to its deletion', async () => {
  const made = await client.videos.create(video);
  assert.deepEqual([made.object, made.status, made.seconds, made.size], ['video', 'queued', '4', '1280x720']);
  const done = await ended(made.id);
  assert.deepEqual([done.status, done.progress, done.error], ['completed', 100, null]);

  const content = await client.videos.downloadContent(made.id);
  const bytes = Buffer.from(await content.arrayBuffer());
  assert.equal(content.headers.get('content-type'), 'video/mp4');
  assert.equal(bytes.length, Number(content.headers.get('content-length')));
  assert.equal(bytes.toString('latin1', 4, 8), 'ftyp'); // MP4 signature

  const deleted = await client.videos.delete(made.id);
  assert.deepEqual([deleted.id, deleted.deleted], [made.id, true]);
  await assert.rejects(client.videos.retrieve(made.id), { status: 404, code: 'task_not_found' });
});

test('videos of a picture, and one that fails', async () => {
  const picture = await toFile(Buffer.from('\x89PNG\r\n\x1a\n the first frame', 'latin1'), 'frame.png', { type: 'image/png' });
  const end = async (more) => ended((await client.videos.create({ ...video, ...more })).id);
  const [file, url, failed] = await Promise.all([
    end({ input_reference: picture }),
    end({ input_reference: { image_url: 'https://example.com/a.png' } }),
    end({ model: `${video.model},fail=text risk` }),
  ]);
  assert.equal(file.status, 'completed');
  assert.equal(url.status, 'completed');
  assert.equal(failed.status, 'failed');
  assert.deepEqual([failed.error.code, failed.error.message], ['upstream_failed', 'text risk']);
});

test('videos are listed by page, in both orders', async () => {
  const listed = async (query) => (await all(client.videos.list(query))).map(({ id }) => id);
  const ids = await listed({ limit: 2 });
  assert.ok(ids.length >= 3, `${ids.length} videos`);
  assert.deepEqual((await listed({ limit: 3, order: 'asc' })).reverse(), ids);
});

test('an idempotency key attaches, and is for one body', async () => {
  const headers = { 'Idempotency-Key': unique('node') };
  const first = await client.videos.create(video, { headers });
  const again = await client.videos.create(video, { headers });
  assert.equal(again.id, first.id);
  await assert.rejects(client.videos.create({ ...video, prompt: 'a dog' }, { headers }), OpenAI.UnprocessableEntityError);
});

/** Runs a call that fails and returns how often it was sent. The client retries temporary errors twice. */
async function refused(call, error, code) {
  const before = fetch.calls;
  await assert.rejects(call, (err) => {
    assert.ok(err instanceof error, `${err.constructor.name}: ${err.message}`);
    assert.equal(err.code, code);
    return true;
  });
  return fetch.calls - before;
}

test('errors have their class and code, and what is final is not sent again', async () => {
  const chat = (model, headers) => client.chat.completions.create({ model, messages }, { headers });
  const { BadRequestError, InternalServerError, NotFoundError } = OpenAI;
  assert.equal(await refused(client.videos.retrieve('video_none'), NotFoundError, 'task_not_found'), 1);
  assert.equal(await refused(chat('none'), NotFoundError, 'model_not_found'), 1);
  assert.equal(await refused(client.videos.create({ ...video, prompt: '' }), BadRequestError, 'invalid_request'), 1);
  assert.equal(await refused(chat('sandbox-chat:status=400,code=bad_prompt'), BadRequestError, 'bad_prompt'), 1);
  // A chat with a key is a queued job, and a failed job stays failed.
  assert.equal(await refused(chat('sandbox-chat:status=503,code=overloaded', { 'Idempotency-Key': unique('final') }), InternalServerError, 'upstream_unavailable'), 1);
  const { id } = await client.videos.create({ ...video, model: 'sandbox-videos:duration_ms=600000' });
  assert.equal(await refused(client.videos.downloadContent(id), BadRequestError, 'content_not_ready'), 1);
  await client.videos.delete(id);
});

test('a busy upstream is asked again, when it said', async () => {
  const before = fetch.calls, begin = Date.now();
  const { choices } = await client.chat.completions.create({ model: `sandbox-chat:status=429,retry_after=1,times=1,id=${unique('busy')}`, messages });
  assert.match(choices[0].message.content, reply);
  assert.equal(fetch.calls - before, 2);
  assert.ok(Date.now() - begin >= 1000, `after ${Date.now() - begin} ms`);
});

test('models', async () => {
  const models = (await all(client.models.list())).map(({ id }) => id);
  assert.ok(models.includes('sandbox-videos'), models.join());
  assert.equal((await client.models.retrieve('sandbox-videos')).id, 'sandbox-videos');
});
