// Checks an OpenAPI and an AsyncAPI document against the official schemas:
// node check.mjs openapi.json asyncapi.json
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import Ajv from "ajv";
import addFormats from "ajv-formats";
import { createConfig, lint } from "@redocly/openapi-core";
import { Validator } from "@seriousme/openapi-schema-validator";

const [openapi, asyncapi] = process.argv.slice(2);
const read = async (file) => JSON.parse(await readFile(file, "utf8"));
const wrong = [];

const { valid, errors } = await new Validator().validate(await read(openapi));
if (!valid) wrong.push([openapi, errors]);

// Redocly checks the examples against the schemas. Warnings are errors. Two rules are
// off: the vendor defines the path /jimeng/, and OpenAPI 3.0 cannot refer to the schemas
// of server-sent events, so they count as unused.
const rules = { "no-path-trailing-slash": "off", "no-unused-components": "off" };
const problems = await lint({ ref: openapi, config: await createConfig({ extends: ["minimal"], rules }) });
if (problems.length > 0) wrong.push([openapi, problems.map((p) => ({ rule: p.ruleId, message: p.message, at: p.location?.[0]?.pointer }))]);

const document = await read(asyncapi);
const schema = createRequire(import.meta.url)(`@asyncapi/specs/schemas/${document.asyncapi}-without-$id.json`);
const ajv = new Ajv({ strict: false, allErrors: true });
addFormats(ajv);
const fits = ajv.compile(schema);
if (!fits(document)) wrong.push([asyncapi, fits.errors]);

for (const [file, why] of wrong) console.error(`${file} is not valid:\n${JSON.stringify(why, null, 1)}`);
if (wrong.length === 0) console.log("Both documents are valid.");
process.exitCode = wrong.length === 0 ? 0 : 1;
