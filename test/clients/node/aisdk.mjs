// The AI SDK with its OpenAI-compatible provider: chats and errors.
import assert from 'node:assert/strict';
import test from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { all, counting, http, key, prompt, reply } from './service.mjs';

const fetch = counting();
const genbus = createOpenAICompatible({ name: 'genbus', baseURL: `${http}/v1`, apiKey: key, fetch, includeUsage: true });
const model = genbus('sandbox-chat-fast');

test('generateText', async () => {
  const { text, finishReason, usage } = await generateText({ model, prompt });
  assert.match(text, reply);
  assert.equal(finishReason, 'stop');
  assert.equal(usage.totalTokens, 25);
});

test('streamText, with its usage', async () => {
  const result = streamText({ model, prompt, onError: () => {} });
  const pieces = await all(result.textStream);
  assert.match(pieces.join(''), reply);
  assert.equal(pieces.length, 20);
  assert.equal(await result.finishReason, 'stop');
  assert.equal((await result.usage).totalTokens, 25);
});

test('a tool is called, and its answer goes on', async () => {
  const called = [];
  const count = tool({ inputSchema: jsonSchema({ type: 'object' }), execute: async (input) => called.push(input) });
  const { text, steps } = await generateText({ model, prompt: 'use the tool', tools: { count }, stopWhen: stepCountIs(2) });
  assert.equal(called.length, 1);
  assert.equal(typeof called[0], 'object');
  assert.deepEqual(steps.map((step) => step.finishReason), ['tool-calls', 'stop']);
  assert.ok(text.length > 0);
});

test('an error is final, and is not sent again', async () => {
  for (const [id, status, code] of [['none', 404, 'model_not_found'], ['sandbox-chat:status=400,code=bad_prompt', 400, 'bad_prompt']]) {
    const before = fetch.calls;
    await assert.rejects(generateText({ model: genbus(id), prompt }), (err) => {
      assert.ok(APICallError.isInstance(err), err);
      assert.deepEqual([err.statusCode, err.isRetryable, err.data.error.code], [status, false, code]);
      return true;
    });
    assert.equal(fetch.calls - before, 1);
  }
});

test('a stream that is refused, and one that breaks, say so', async () => {
  for (const id of ['none', 'sandbox-chat:drop_after_chunks=2']) {
    const errors = [];
    const result = streamText({ model: genbus(id), prompt, onError: ({ error }) => errors.push(error) });
    for await (const _ of result.textStream);
    assert.equal(errors.length, 1, `${id}: ${errors}`);
  }
});
