import {
  canonicalJson,
  FILLED_FORMATS,
  isPattern,
  isRecord,
  legibleSchema,
  longestTextFor,
  mapSchemas,
  SchemaDocument,
  waysToMatch,
} from '@x/internal'
import type { Ajv, ErrorObject, FuncKeywordDefinition, Options, ValidateFunction } from 'ajv'
import type { Ajv2020 } from 'ajv/dist/2020.js'
import { wholeCharacters } from '../internal/text.ts'
import type { JsonSchema } from './agent.ts'

/** Returns why a value does not match a schema. `undefined` if it matches. */
export type Validator = (value: unknown) => string | undefined

type Compiled = ValidateFunction | { readonly defect: string }

/** A place in a value that a schema refuses. */
export interface Refusal {
  /** JSON pointer. `''` is the whole value. */
  readonly place: string
  /** Field of the object at this place that the schema does not allow. */
  readonly unknownField?: string | undefined
  /** The text is empty, and has a format that is never empty. Other checks accept it. @default false */
  readonly isUnfilled?: boolean | undefined
  /** Returns the place and the reason, for the caller. */
  readonly text: () => string
}

/** A plan is made again with each change of an agent, but a schema is compiled once. */
const compiledSchemas = new WeakMap<JsonSchema, Compiled>()
/** The same schemas, for checks that do not end at the first error. Few calls need one. */
const thoroughSchemas = new WeakMap<JsonSchema, Compiled>()

/**
 * Returns a check by a schema, which is compiled with the first value. A schema that cannot be compiled accepts no value.
 * Call it when the schema is known, and `whenSchemasChecked()` before the first value.
 */
export function validatorFor(schema: JsonSchema): Validator {
  void whenSchemasChecked()
  return (value) => {
    const compiled = compiledFor(schema)
    return typeof compiled === 'function' ? mismatch(compiled, value) : compiled.defect
  }
}

/**
 * Returns why a value does not match a schema, with the path. A schema that cannot be compiled accepts every value. Needs
 * `whenSchemasChecked()` before.
 */
export function schemaMismatch(schema: JsonSchema, value: unknown): string | undefined {
  const compiled = compiledFor(schema)
  return typeof compiled === 'function' ? mismatch(compiled, value) : undefined
}

/** Returns all places of a value that a schema refuses. Empty for a schema that cannot be compiled, and if it is too much work. */
export function refusalsOf(schema: JsonSchema, value: unknown): readonly Refusal[] {
  const compiled = compiledFor(schema, thoroughSchemas)
  const errors = typeof compiled === 'function' ? errorsOf(compiled, value) : []
  if (typeof errors === 'string') return []
  return errors.map((error) => ({
    place: error.instancePath,
    unknownField: unknownFieldIn(error.params),
    isUnfilled: error.keyword === 'format',
    text: () => showError(error),
  }))
}

function compiledFor(schema: JsonSchema, cache = compiledSchemas): Compiled {
  const known = cache.get(schema)
  if (known !== undefined) return known
  // Not kept: the library may be loaded later.
  if (compilers === undefined) return { defect: 'the package ajv is not loaded' }
  const compiled = compile(schema, compilers, cache === thoroughSchemas ? THOROUGH : OPTIONS)
  cache.set(schema, compiled)
  return compiled
}

function mismatch(validate: ValidateFunction, value: unknown): string | undefined {
  const errors = errorsOf(validate, value)
  if (typeof errors === 'string') return errors
  return errors.length === 0 ? undefined : showError(errors[0])
}

/** Returns what a schema refuses in a value; or text: the check would be too much work. */
function errorsOf(validate: ValidateFunction, value: unknown): readonly ErrorObject[] | string {
  referencesLeft = MAX_REFERENCES
  try {
    return validate(value) ? [] : (validate.errors ?? [])
  } catch (error) {
    if (error instanceof TooMuchWork) return error.message
    throw error
  }
}

/** References that one check follows. A recursive schema with alternatives may follow twice as many for each level of a value. */
const MAX_REFERENCES = 2 ** 17
let referencesLeft = 0

/** Ends a check that would block the process. */
class TooMuchWork extends Error {
  constructor() {
    super('/ needs too much work to be checked: nest it less deeply')
  }
}

/** Keyword beside each reference. */
const COUNTED = 'x-counted-reference'

/** Counts the references that are followed, whether they fit or not. */
const countReferences: FuncKeywordDefinition = {
  keyword: COUNTED,
  before: '$ref',
  schema: false,
  errors: false,
  validate: () => {
    if (--referencesLeft < 0) throw new TooMuchWork()
    return true
  },
}

/** Compares no two items: with the keyword of the library, a list of 12,000 objects takes seconds. */
const uniqueItems: FuncKeywordDefinition = {
  keyword: 'uniqueItems',
  type: 'array',
  schemaType: 'boolean',
  error: { message: 'must not have equal items' },
  validate: (isUnique: boolean, items: readonly unknown[]) =>
    !isUnique || new Set(items.map(canonicalJson)).size === items.length,
}

/**
 * Marks each reference, wherever it is: a reference may lead to any part of a schema.
 *
 * @param hasNames the keys are names, such as those of properties, and no keywords
 */
function withCounted(part: unknown, hasNames = false): unknown {
  if (Array.isArray(part)) return part.map((each) => withCounted(each))
  if (!isRecord(part)) return part
  const entries = Object.entries(part).map(([key, inner]): [string, unknown] => {
    if (!hasNames && (key === 'const' || key === 'enum')) return [key, inner]
    return [key, withCounted(inner, !hasNames && !ONE_SCHEMA.has(key))]
  })
  const isReference = REFERENCES.some((key) => typeof part[key] === 'string')
  return Object.fromEntries(isReference ? [...entries, [COUNTED, true]] : entries)
}

const REFERENCES = ['$ref', '$dynamicRef', '$recursiveRef']

/** Keywords whose value is a schema. */
const ONE_SCHEMA: ReadonlySet<string> = new Set([
  ...'not if then else items additionalItems unevaluatedItems contains'.split(' '),
  ...'additionalProperties unevaluatedProperties propertyNames contentSchema'.split(' '),
])

type RegExpEngine = NonNullable<NonNullable<Options['code']>['regExp']>

/** Leaves long texts to the agent: an expression of a remote agent must not block the process. */
const boundedRegExp: RegExpEngine = Object.assign(
  (expression: string, flags: string): { test(text: string): boolean } => {
    const compiled = new RegExp(expression, flags)
    const longest = longestTextFor(waysToMatch(expression))
    return { test: (text) => text.length > longest || compiled.test(text) }
  },
  { code: 'boundedRegExp' },
)

const OPTIONS: Options = {
  strict: false,
  // To check a schema by its meta-schema takes a hundred times as long as to compile it.
  meta: false,
  validateSchema: false,
  validateFormats: false,
  addUsedSchema: false,
  logger: false,
  code: { regExp: boundedRegExp },
}

const THOROUGH: Options = {
  ...OPTIONS,
  allErrors: true,
  validateFormats: true,
  formats: Object.fromEntries(FILLED_FORMATS.map((name) => [name, (text: string) => text !== ''])),
}

function bounded<Compiler extends Ajv | Ajv2020>(compiler: Compiler): Compiler {
  compiler.removeKeyword('uniqueItems').addKeyword(uniqueItems).addKeyword(countReferences)
  return compiler
}

/** Makes instances of the library. */
interface Compilers {
  readonly draft7: (options: Options) => Ajv
  readonly draft2020: (options: Options) => Ajv2020
}

let compilers: Compilers | undefined
let loading: Promise<void> | undefined

/** Loads the library for the first schema, because tools that take a message do not need its 86 modules. Never rejects. */
export function whenSchemasChecked(): Promise<void> {
  // Each use of a schema reports a failure.
  loading ??= loadCompilers().catch(() => undefined)
  return loading
}

/** With `import()` instead of `require()`, bundlers find the library. */
async function loadCompilers(): Promise<void> {
  const [{ Ajv }, { Ajv2020 }] = await Promise.all([import('ajv'), import('ajv/dist/2020.js')])
  compilers = {
    draft7: (options) => bounded(new Ajv(options)),
    draft2020: (options) => bounded(new Ajv2020(options)),
  }
}

/** Returns whether some schema needs the library, and it is not loaded yet. */
export function areSchemasPending(): boolean {
  return loading !== undefined && compilers === undefined
}

function compile(schema: JsonSchema, { draft7, draft2020 }: Compilers, options: Options): Compiled {
  const { $schema: dialect, ...rest } = schema
  try {
    // A new instance for each schema, because two schemas may have the same ids and anchors.
    const marked = withCounted(rest)
    if (!isRecord(marked)) return { defect: 'no schema' }
    const compiler = /draft-0[4-7]/.test(String(dialect)) ? draft7(options) : draft2020(options)
    return compiler.compile(marked)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { defect: `the schema of this tool cannot be used: ${wholeCharacters(message, 200)}` }
  }
}

function showError(error: ErrorObject | undefined): string {
  if (error === undefined) return 'does not match the schema'
  const { instancePath, message = 'does not match the schema', params } = error
  const text = `${instancePath === '' ? '/' : instancePath} ${message}${detailOf(params)}`
  return wholeCharacters(text, 500)
}

/** Returns the name or the allowed values that the message of ajv does not contain. Never the value itself. */
function detailOf(params: Readonly<Record<string, unknown>>): string {
  const { allowedValues } = params
  const name = unknownFieldIn(params)
  if (name !== undefined) return `: "${wholeCharacters(name, 100)}"`
  return Array.isArray(allowedValues) ? `: ${JSON.stringify(allowedValues)}` : ''
}

function unknownFieldIn(params: Readonly<Record<string, unknown>>): string | undefined {
  const { additionalProperty, unevaluatedProperty } = params
  const name = additionalProperty ?? unevaluatedProperty
  return typeof name === 'string' ? name : undefined
}

const LIMITS = { depth: 64, nodes: 20_000 }
const MAX_CHARACTERS = 65_536

/**
 * Returns why a schema cannot be the schema of a tool, or `undefined` if it can. It checks form and size only.
 * Other defects show when the schema is compiled, which costs more and waits for the first call.
 */
export function schemaDefectOf(schema: unknown): string | undefined {
  if (!isRecord(schema)) return 'it is not an object'
  const { type } = schema
  if (type !== undefined && type !== 'object') {
    return `it is of type ${JSON.stringify(type)?.slice(0, 60)}, not "object"`
  }
  return (
    new SchemaDocument(schema, LIMITS).defect ?? sizeDefectOf(schema) ?? patternDefectOf(schema)
  )
}

/** An object of this process may contain values that JSON does not have. */
function sizeDefectOf(schema: JsonSchema): string | undefined {
  try {
    const isLong = JSON.stringify(schema).length > MAX_CHARACTERS
    return isLong ? `it has more than ${MAX_CHARACTERS} characters` : undefined
  } catch {
    return 'it contains a value that JSON does not have'
  }
}

function patternDefectOf(root: JsonSchema): string | undefined {
  let defect: string | undefined
  mapSchemas(root, (schema) => {
    const { pattern } = schema
    if (pattern !== undefined && !isPattern(pattern)) {
      defect = '"pattern" is not a valid regular expression'
    }
    return schema
  })
  return defect
}

/**
 * Returns a schema of an agent as clients see it, with legible texts and without `x-mcp-header`. That tells clients to repeat an argument as a header, and a server that repeats the
 * schema of another one would have to compare both (specification 2026-07-28, "Custom Headers").
 */
export function shownSchema(schema: JsonSchema): JsonSchema {
  return legibleSchema(mapSchemas(schema, ({ 'x-mcp-header': _hint, ...rest }) => rest))
}

/** Returns the schema of an output as clients see it: without formats, which they check and the gateway does not. */
export function shownOutput(schema: JsonSchema): JsonSchema {
  return shownSchema(mapSchemas(schema, ({ format: _unchecked, ...rest }) => rest))
}
