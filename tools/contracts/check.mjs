// Checks an OpenAPI and an AsyncAPI document against the schemas of those who
// define them: node check.mjs openapi.json asyncapi.json
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import Ajv from "ajv";
import addFormats from "ajv-formats";
import { Validator } from "@seriousme/openapi-schema-validator";

const [openapi, asyncapi] = process.argv.slice(2);
const read = async (file) => JSON.parse(await readFile(file, "utf8"));
const wrong = [];

const { valid, errors } = await new Validator().validate(await read(openapi));
if (!valid) wrong.push([openapi, errors]);

const document = await read(asyncapi);
const schema = createRequire(import.meta.url)(`@asyncapi/specs/schemas/${document.asyncapi}-without-$id.json`);
const ajv = new Ajv({ strict: false, allErrors: true });
addFormats(ajv);
const fits = ajv.compile(schema);
if (!fits(document)) wrong.push([asyncapi, fits.errors]);

for (const [file, why] of wrong) console.error(`${file} is not valid:\n${JSON.stringify(why, null, 1)}`);
if (wrong.length === 0) console.log("Both documents are valid.");
process.exitCode = wrong.length === 0 ? 0 : 1;
