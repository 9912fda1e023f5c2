import { isBlank, isRecord, stepOf } from '@x/internal'
import { z } from 'zod'
import { messageFieldOf } from '../agents/agent.ts'
import type { Agent, CheckedInput, JsonSchema, Skill } from '../agents/agent.ts'
import {
  refusalsOf,
  schemaDefectOf,
  shownSchema,
  validatorFor,
  whenSchemasChecked,
  type Refusal,
} from '../agents/schemas.ts'
import { valueFromJson } from '../internal/text.ts'
import { argumentsFrom, fittedArguments } from './fitted-arguments.ts'
import type { Arguments } from './fitted-arguments.ts'
import type { ArgumentCheck, CheckedArguments, PlanOptions } from './plan.ts'
import { MAX_CONVERSATION_CHARS } from './conversation-tool.ts'
import { readSkillArguments, type ReadArguments } from './skill-arguments.ts'

/** An object schema, as `tools/list` needs it. */
type ObjectSchema = { readonly type: 'object'; readonly [keyword: string]: unknown }

/** Parameters of a tool. */
export interface ToolParameters {
  readonly kind: 'message' | 'schema'
  /** The tool has the parameter `resume` of the gateway. */
  readonly takesResume: boolean
  readonly inputSchema: ObjectSchema
  readonly check: (args: unknown) => ArgumentCheck
}

/**
 * Returns the parameters of a tool: one `message`, or the properties of the skill's schema; or why the schema cannot be
 * used. A skill that cannot start from a message takes the properties of its schema with every setting.
 */
export function parametersOf(
  agent: Agent,
  skill: Skill,
  {
    parameters,
    takesConversation = false,
    takesFiles,
  }: Pick<PlanOptions, 'parameters' | 'takesConversation' | 'takesFiles'>,
): ToolParameters | { readonly defect: string } {
  const added: readonly ExtraName[] = [
    ...(takesFiles ? (['files'] as const) : []),
    ...(takesConversation && agent.keepsThreads !== false ? (['conversation'] as const) : []),
    ...(agent.canAsk === false ? [] : (['resume'] as const)),
    ...(skill.contextSchema === undefined ? [] : (['context'] as const)),
  ]
  const contextSchema = skill.contextSchema && usableContext(skill.contextSchema)
  const fitsContext = contextSchema && validatorFor(contextSchema)
  const own = skill.inputSchema
  if (own === undefined) return takingMessage()
  const needsArguments = skill.startsFrom === 'arguments'
  const worksByMessage = !needsArguments || messageFieldOf(own) !== undefined
  if (parameters === 'message' && worksByMessage) return takingMessage()
  const defect = schemaDefectOf(own)
  if (parameters !== 'schema' && !needsArguments) {
    const isSimple = defect === undefined && hasPlainFields(own)
    if (skill.startsFrom === 'message' || !isSimple) return takingMessage()
  }
  if (defect !== undefined) return { defect }
  return takingArguments(own)

  function takingMessage(): ToolParameters {
    return {
      kind: 'message',
      takesResume: added.includes('resume'),
      inputSchema: withExtras(MESSAGE, added, contextSchema),
      check: (args) => checked(args, added, { read: readMessage, readContext }),
    }
  }

  function takingArguments(schema: JsonSchema): ToolParameters {
    void whenSchemasChecked() // each call checks its arguments
    const taken = namesIn(schema)
    const extras = added.filter((name) => !taken.has(name))
    const read = (given: Arguments): ReadArguments => readSkillArguments(given, schema, skill)
    return {
      kind: 'schema',
      takesResume: extras.includes('resume'),
      inputSchema: withExtras(shownSchema(schema), extras, contextSchema),
      check: (args) => checked(args, extras, { read, readContext }),
    }
  }

  function readContext(given: unknown): Arguments | { readonly complaint: string } {
    const context = argumentsFrom(given)
    if (!isRecord(context)) return { complaint: '/context must be an object' }
    const complaint = fitsContext?.(context)
    if (contextSchema === undefined || complaint === undefined) return { context }
    // No client adds fields here: an unknown one is a mistake.
    const { value } = fittedArguments(context, contextSchema, (each) =>
      refusalsOf(contextSchema, each).map(({ place, text }) => ({ place, text })),
    )
    if (fitsContext?.(value) === undefined) return { context: value }
    return { complaint: `/context${complaint.replace(/^\/ /, ' ')}` }
  }
}

/** A context schema that cannot be shown costs the checks of the context only: the agent checks it, too. */
function usableContext(schema: JsonSchema): JsonSchema {
  return schemaDefectOf(schema) === undefined ? shownSchema(schema) : { type: 'object' }
}

/** Skills with inferred schemas. A plan is made again with each change, but a schema is compiled once. */
const inferredSkills = new WeakMap<Skill, Skill>()

/**
 * Adds a schema to a skill without one, if all its examples are JSON objects that agree on the types of their
 * properties. Returns other skills as they are.
 */
export function withSchemaFromExamples(skill: Skill): Skill {
  if (skill.inputSchema !== undefined) return skill
  const known = inferredSkills.get(skill)
  if (known !== undefined) return known
  const inputSchema = schemaFromExamples(skill.examples ?? [])
  const inferred = inputSchema === undefined ? skill : { ...skill, inputSchema }
  inferredSkills.set(skill, inferred)
  return inferred
}

function schemaFromExamples(examples: readonly string[]): JsonSchema | undefined {
  const types = new Map<string, string>()
  let required: readonly string[] | undefined
  for (const example of examples) {
    const value = objectFromJson(example)
    if (value === undefined) return undefined
    for (const [name, each] of Object.entries(value)) {
      const known = types.get(name)
      const type = commonType(known ?? typeOf(each), typeOf(each))
      if (type === undefined) return undefined
      types.set(name, type)
    }
    required = (required ?? Object.keys(value)).filter((name) => Object.hasOwn(value, name))
  }
  // Examples without a property in common are not of one shape.
  if (required === undefined || required.length === 0) return undefined
  const properties = [...types].map(([name, type]) => [name, { type }] as const)
  return { type: 'object', properties: Object.fromEntries(properties), required }
}

function objectFromJson(text: string): Arguments | undefined {
  if (!text.trimStart().startsWith('{')) return undefined // most examples are sentences
  const value = valueFromJson(text)
  return isRecord(value) ? value : undefined
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : typeof value
}

function commonType(one: string, other: string): string | undefined {
  if (one === other) return one
  const areNumbers = [one, other].every((type) => type === 'integer' || type === 'number')
  return areNumbers ? 'number' : undefined
}

interface Readers {
  readonly read: (own: Arguments) => ReadArguments
  /** Reads the parameter `context`. */
  readonly readContext: (value: unknown) => Arguments | { readonly complaint: string }
}

const MESSAGE: JsonSchema = {
  properties: { message: { type: 'string', description: 'What to ask the agent, in full.' } },
  required: ['message'],
}

function readMessage(given: Arguments): ReadArguments {
  const { leftOut, value: own } = fittedArguments(given, MESSAGE, otherFields)
  return { own, leftOut, input: messageFrom(own) }
}

/** The agent would not see them. */
function otherFields(value: Arguments): readonly Refusal[] {
  const names = Object.keys(value).filter((name) => name !== 'message')
  return names.map((unknownField) => ({
    place: '',
    unknownField,
    text: () => `/ takes no "${unknownField}"`,
  }))
}

function messageFrom({ message }: Arguments): CheckedInput | { readonly complaint: string } {
  if (typeof message !== 'string') return { complaint: '/message must be a text' }
  if (message.trim() === '') return { complaint: '/message must not be blank' }
  return { kind: 'message', text: message }
}

function checked(
  args: unknown,
  extras: readonly ExtraName[],
  { read, readContext }: Readers,
): ArgumentCheck {
  if (args !== undefined && !isRecord(args)) return refused('/ must be an object')
  const given = args ?? {}
  const hasExtras = extras.some((name) => name in given)
  const { fields = {}, ...rest } = hasExtras ? readExtras(given, extras) : NO_EXTRAS
  if ('complaint' in rest) return refused(rest.complaint)
  const isOwn = ([name]: [string, unknown]): boolean => !extras.some((extra) => extra === name)
  const own = hasExtras ? Object.fromEntries(Object.entries(given).filter(isOwn)) : given
  const { input, leftOut, own: meant } = read(own)
  // An answer to a question needs no other arguments.
  if (rest.resume !== undefined && Object.values(meant).every(isBlank)) {
    return { ok: true, arguments: { ...rest, input: undefined }, meant: {}, leftOut }
  }
  if ('complaint' in input) return refused(input.complaint)
  const hasContext = extras.includes('context') && !isBlank(given['context'] ?? null)
  const context = extras.includes('context') ? readContext(given['context']) : undefined
  if (context && 'complaint' in context) return refused(String(context['complaint']))
  return {
    ok: true,
    arguments: { ...rest, ...context, input },
    meant: hasExtras ? { ...meant, ...fields, ...(hasContext && context) } : meant,
    leftOut,
  }
}

interface Extras extends Omit<CheckedArguments, 'input'> {
  /** The added parameters as they were meant, without `resume` and `context`. */
  readonly fields?: Arguments
}

const NO_EXTRAS: Extras = { files: [], resume: undefined }

function refused(complaint: string): ArgumentCheck {
  return { ok: false, complaint: `Bad arguments: ${complaint}` }
}

function withExtras(
  schema: JsonSchema,
  extras: readonly ExtraName[],
  contextSchema: JsonSchema | undefined,
): ObjectSchema {
  if (extras.length === 0) return { ...schema, type: 'object' }
  const own = isRecord(schema['properties']) ? schema['properties'] : {}
  const schemas = { ...EXTRA_SCHEMAS, context: contextSchema }
  const added = Object.fromEntries(extras.map((name) => [name, schemas[name]]))
  const isNeeded = extras.includes('context') && contextSchema?.['required'] !== undefined
  const required: readonly unknown[] = Array.isArray(schema['required']) ? schema['required'] : []
  return {
    ...schema,
    type: 'object',
    properties: { ...own, ...added },
    ...(isNeeded && { required: [...required, 'context'] }),
  }
}

function namesIn({ properties, required }: JsonSchema): ReadonlySet<string> {
  const names = isRecord(properties) ? Object.keys(properties) : []
  const needed: readonly unknown[] = Array.isArray(required) ? required : []
  return new Set([...names, ...needed.filter((name) => typeof name === 'string')])
}

const COMBINING = ['allOf', 'anyOf', 'oneOf', 'not', 'if', '$ref', 'patternProperties'] as const

/** Returns whether all properties are plain values, which models fill in reliably. */
function hasPlainFields(schema: JsonSchema): boolean {
  const { properties } = schema
  if (COMBINING.some((keyword) => schema[keyword] !== undefined)) return false
  if (!isRecord(properties)) return false
  const fields = Object.values(properties)
  return fields.length > 0 && fields.every((field) => isRecord(field) && isPlain(field))
}

const PLAIN: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean', 'null'])

function isPlain({ type, enum: values, const: value, anyOf }: JsonSchema): boolean {
  if (type !== undefined) return (Array.isArray(type) ? type : [type]).every((t) => PLAIN.has(t))
  if (Array.isArray(anyOf)) return anyOf.every((each) => isRecord(each) && isPlain(each))
  return Array.isArray(values) || (value !== undefined && !(value instanceof Object))
}

/**
 * Parameters that the gateway adds, unless the skill has one of that name. They depend on the configuration and the agent
 * only: a list must not vary by connection (specification 2026-07-28, "Tools").
 */
type ExtraName = 'files' | 'conversation' | 'resume' | 'context'

const MAX_FILES = 64
const MAX_URI = 2048
const MAX_HANDLE = 4096

/** Schemas of the added parameters, which are optional. That of `context` is part of the skill. */
const EXTRA_SCHEMAS: Readonly<
  Record<Exclude<ExtraName, 'context'>, Readonly<Record<string, unknown>>>
> = {
  files: {
    type: 'array',
    items: { type: 'string', maxLength: MAX_URI },
    maxItems: MAX_FILES,
    description: 'URIs of artifacts to give to the agent.',
  },
  conversation: {
    type: 'string',
    maxLength: MAX_CONVERSATION_CHARS,
    description:
      'Name of a conversation: the agent knows the earlier calls with the same name. Without it: the usual conversation.',
  },
  resume: {
    type: 'object',
    properties: {
      run: { type: 'string', maxLength: MAX_HANDLE, description: 'The run that asked.' },
      answers: { type: 'object', description: 'An answer for each question, by its key.' },
    },
    required: ['run', 'answers'],
    description: 'Only to answer the questions of an earlier call that needs input.',
  },
}

const text = (max: number): z.ZodString => z.string().min(1).max(max)

const extrasShape = z.object({
  files: z.array(text(MAX_URI)).max(MAX_FILES).default([]),
  conversation: text(MAX_CONVERSATION_CHARS).optional(),
  resume: z
    .object({ run: text(MAX_HANDLE), answers: z.record(z.string(), z.unknown()) })
    .optional(),
})

const EXTRA_RULES: Readonly<Record<keyof typeof EXTRA_SCHEMAS, string>> = {
  files: `must be a list of at most ${MAX_FILES} artifact URIs`,
  conversation: `must be a text of 1 to ${MAX_CONVERSATION_CHARS} characters`,
  resume: 'must have "run", a text, and "answers", an object',
}

/** Reads the added parameters but `context`, or returns why they are wrong. */
function readExtras(
  args: Arguments,
  names: readonly ExtraName[],
): Extras | { readonly complaint: string; readonly fields?: never } {
  const common = names.filter((name) => name !== 'context' && name in args)
  const given = Object.fromEntries(common.map((name) => [name, args[name]]))
  const { value } = fittedArguments(given, EXTRAS_SCHEMA, extrasRefused)
  const read = extrasShape.safeParse(value)
  if (read.success) {
    const { resume: _, ...fields } = value
    return { resume: undefined, ...read.data, fields }
  }
  const wrong = EXTRA_NAMES.find((name) => read.error.issues.some(({ path }) => path[0] === name))
  return { complaint: wrong ? `/${wrong} ${EXTRA_RULES[wrong]}` : read.error.message }
}

const EXTRAS_SCHEMA: JsonSchema = { type: 'object', properties: EXTRA_SCHEMAS }
const EXTRA_NAMES = ['files', 'conversation', 'resume'] as const

function extrasRefused(value: Arguments): readonly Refusal[] {
  const { error } = extrasShape.safeParse(value)
  return (error?.issues ?? []).map(({ message, path }) => ({
    place: path.map((step) => `/${stepOf(String(step))}`).join(''),
    text: () => message,
  }))
}
