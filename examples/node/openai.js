// Makes a video with the OpenAI SDK: `node openai.js [base URL]`.
import { setTimeout as wait } from 'node:timers/promises';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.argv[2] ?? 'http://127.0.0.1:8080/v1', apiKey: 'any' });

// A create with the same key returns the same video.
const headers = { 'Idempotency-Key': 'node-7' };
let video = await client.videos.create({ model: 'sandbox-videos', prompt: 'a cat', seconds: '4' }, { headers });
while (video.status === 'queued' || video.status === 'in_progress') {
  await wait(1000);
  video = await client.videos.retrieve(video.id);
}
console.log(video.id, video.status);
