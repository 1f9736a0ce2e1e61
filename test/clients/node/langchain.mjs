// LangChain: chats and errors.
import assert from 'node:assert/strict';
import test from 'node:test';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { counting, http, key, prompt, reply } from './service.mjs';

const fetch = counting();
const chat = (model) => new ChatOpenAI({ model, apiKey: key, configuration: { baseURL: `${http}/v1`, fetch } });
const model = chat('sandbox-chat-fast');

test('invoke', async () => {
  const { content, response_metadata, usage_metadata } = await model.invoke(prompt);
  assert.match(content, reply);
  assert.equal(response_metadata.finish_reason, 'stop');
  assert.equal(usage_metadata.total_tokens, 25);
});

test('stream, with its usage', async () => {
  let whole;
  for await (const chunk of await model.stream(prompt)) {
    whole = whole?.concat(chunk) ?? chunk;
  }
  assert.match(whole.content, reply);
  assert.equal(whole.usage_metadata.total_tokens, 25);
});

test('a bound tool is called, and its answer goes on', async () => {
  const bound = model.bindTools([{ type: 'function', function: { name: 'count', parameters: { type: 'object', properties: {} } } }]);
  const ask = new HumanMessage('use the tool');
  const asked = await bound.invoke([ask]);
  const [call] = asked.tool_calls;
  assert.equal(call.name, 'count');
  const end = await bound.invoke([ask, asked, new ToolMessage({ tool_call_id: call.id, content: '1' })]);
  assert.equal(end.response_metadata.finish_reason, 'stop');
});

test('an error is final, and is not sent again', async () => {
  for (const [id, status] of [['none', 404], ['sandbox-chat:status=400,code=bad_prompt', 400]]) {
    const before = fetch.calls;
    await assert.rejects(chat(id).invoke(prompt), { status });
    assert.equal(fetch.calls - before, 1);
  }
});

test('a stream that breaks is an error', async () => {
  await assert.rejects(async () => {
    for await (const _ of await chat('sandbox-chat:drop_after_chunks=2').stream(prompt));
  }, { code: 'stream_truncated' });
});
