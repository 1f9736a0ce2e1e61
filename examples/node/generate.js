// Generates gen/ from descriptor.binpb, the contract that genbus serves at /genbus/v1/descriptor.binpb.
// It passes the descriptor set to protoc-gen-es, so you need neither protoc nor buf. If you have one of
// them, you can use it instead.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { CodeGeneratorRequestSchema, CodeGeneratorResponseSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';

const here = dirname(fileURLToPath(import.meta.url));
const { file } = fromBinary(FileDescriptorSetSchema, readFileSync(join(here, 'descriptor.binpb')));
const request = create(CodeGeneratorRequestSchema, {
  parameter: 'target=js+dts,import_extension=js',
  fileToGenerate: file.map((f) => f.name).filter((name) => name.startsWith('genbus/')),
  protoFile: file,
});
const plugin = join(here, 'node_modules', '@bufbuild', 'protoc-gen-es', 'bin', 'protoc-gen-es');
const answer = spawnSync(process.execPath, [plugin], { input: toBinary(CodeGeneratorRequestSchema, request), maxBuffer: 1 << 28 });
if (answer.status !== 0) {
  throw new Error(`protoc-gen-es: ${answer.error ?? answer.stderr}`);
}
const response = fromBinary(CodeGeneratorResponseSchema, answer.stdout);
if (response.error) {
  throw new Error(`protoc-gen-es: ${response.error}`);
}
for (const { name, content } of response.file) {
  const path = join(here, 'gen', name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}
console.log(`wrote ${response.file.length} files to gen`);
