import {
  inputRequired,
  isSpecType,
  type ElicitRequestFormParams,
  type InputRequest,
} from '@modelcontextprotocol/server'

import { isRecord, legible } from '@x/internal'
import type { Answer, JsonSchema, Question } from '../agents/agent.ts'
import { schemaMismatch } from '../agents/schemas.ts'
import { valueFromJson, wholeCharacters } from '../internal/text.ts'

type Content = Readonly<Record<string, unknown>>

/** A question as a client shows it: a flat form, whatever the schema of the answer is. */
export interface QuestionForm {
  /** Key of the answer among the answers of a round: `i0`, `i1`, … */
  readonly key: string
  readonly message: string
  /** An object of strings, numbers, booleans and choices (specification 2026-07-28, "Elicitation"). */
  readonly requestedSchema: FormSchema
  /** Web page that the user visits instead, for clients that support it. */
  readonly url: string | undefined
}

type FormSchema = ElicitRequestFormParams['requestedSchema']
type FormField = FormSchema['properties'][string]

/** Answers by the id of their question. */
export type Answers = Readonly<Record<string, Answer>>

export type AnswersReading =
  | { readonly type: 'answers'; readonly answers: Answers }
  /** The user refused. That ends the run, whatever the other answers are. */
  | { readonly type: 'refusal'; readonly action: 'decline' | 'cancel' }
  | { readonly type: 'timeout' }
  | {
      readonly type: 'errors'
      /** Why an answer is missing or was not accepted, by the id of its question. */
      readonly errors: ReadonlyMap<string, string>
      /** Answers to the other questions. They are not asked again. */
      readonly answers: Answers
    }

/** A round of questions. */
interface Round {
  readonly questions: readonly Question[]
  /** Answers that were accepted before. */
  readonly answers?: Answers | undefined
}

const MAX_MESSAGE_CHARS = 4000
/** Schemas of forms, and most others, are less deep. */
const MAX_DEPTH = 16

/** The form that only confirms a visit to a page. */
const VISITED: FormSchema = { type: 'object', properties: {} }

/** Stands for the answer that did not come in time. It is compared by identity, so no client can send it. */
export const TIMED_OUT: Answer = { action: 'cancel' }

/** Returns the form of a question. @param index its position in its round @param knowsChoices as `RunClient.knowsChoices` */
export function toForm(
  { message: whole, schema, url }: Question,
  index: number,
  knowsChoices = true,
): QuestionForm {
  const message = wholeCharacters(whole, MAX_MESSAGE_CHARS)
  const requestedSchema = url === undefined ? toFormSchema(schema, knowsChoices) : VISITED
  // A client opens the URL. That of an agent could name a program or a file of the user.
  const page = url !== undefined && isWebPage(url) ? url : undefined
  return { key: answerKey(index), message, requestedSchema, url: page }
}

/** Returns the requests that show forms to the user of a client, by the keys of their answers. */
export function toInputRequests(
  forms: readonly QuestionForm[],
): Readonly<Record<string, InputRequest>> {
  return Object.fromEntries(
    forms.map(({ key, message, requestedSchema, url }) => [
      key,
      url === undefined
        ? inputRequired.elicit({ message, requestedSchema })
        : inputRequired.elicitUrl({ message, url }),
    ]),
  )
}

/**
 * Reads the answers to a round of questions: results of elicitations, or plain values. Checks them.
 *
 * @param isPlain a model wrote the answers by their schema, which may have an `action` field of its own
 */
export function readAnswers(
  { questions, answers: earlier = {} }: Round,
  responses: Content,
  isPlain: boolean,
): AnswersReading {
  const answers: Record<string, Answer> = {}
  const errors = new Map<string, string>()
  for (const [index, question] of questions.entries()) {
    const response = responses[answerKey(index)] ?? undefined
    if (response === TIMED_OUT) return { type: 'timeout' }
    const known = response === undefined ? earlier[question.id] : undefined
    const answer = known ?? readAnswer(question, response, isPlain)
    if (typeof answer === 'string') errors.set(question.id, answer)
    else if (answer.action !== 'accept' && question.takesRefusal !== true) {
      return { type: 'refusal', action: answer.action }
    } else answers[question.id] = answer
  }
  return errors.size === 0 ? { type: 'answers', answers } : { type: 'errors', errors, answers }
}

/**
 * Reads the content that a client sent for a question.
 *
 * @returns content in the shape that the agent asked for; or text: why the content is not accepted
 */
export function readForm({ schema, url }: Question, content: Content): Content | string {
  if (url !== undefined) return {}
  const { answer } = content
  if (schema === undefined) {
    return typeof answer === 'string' ? { answer } : 'An `answer` is needed, as text.'
  }
  const isForm = toFlatSchema(schema, true) !== undefined
  const error = schemaMismatch(schema, content) ?? jsonTextError(schema, content)
  const isText = typeof answer === 'string' && !hasField(schema, 'answer')
  // An older client may have shown one text field for JSON instead of this form.
  const fromText = isForm && isText ? readJson(schema, answer) : undefined
  if (isRecord(fromText)) return fromText
  // A model may have answered a deep schema in its own shape.
  if (error === undefined && (isForm || !isText)) return content
  return isForm ? mismatchError(error) : readJson(schema, answer)
}

/**
 * Returns whether a schema asks for a secret: `format: 'password'` or `writeOnly`. Forms must not ask for secrets, because
 * answers pass through the client (specification 2026-07-28, "Elicitation").
 */
export function asksForSecret(schema: JsonSchema | undefined): boolean {
  return schema !== undefined && holdsSecret(schema, MAX_DEPTH)
}

/** Returns whether a URL is a page of the web. */
export function isWebPage(url: string): boolean {
  return /^https?:\/\//i.test(url) && URL.canParse(url)
}

function answerKey(index: number): string {
  return `i${index}`
}

function readAnswer(question: Question, response: unknown, isPlain: boolean): Answer | string {
  if (response === undefined) return 'There is no answer yet.'
  if (!isRecord(response)) return readContent(question, { answer: response })
  const { action, content } = response
  if (isPlain && content === undefined && hasField(question.schema, 'action')) {
    const answer = readContent(question, response)
    if (typeof answer !== 'string') return answer
  }
  if (action === 'decline' || action === 'cancel') return { action }
  if (action !== 'accept') return readContent(question, response)
  return readContent(question, isRecord(content) ? content : {})
}

function readContent(question: Question, content: Content): Answer | string {
  const read = readForm(question, content)
  return typeof read === 'string' ? read : { action: 'accept', content: read }
}

function readJson(schema: JsonSchema, text: unknown): Content | string {
  const value = valueFromJson(text)
  if (value === undefined) return 'The `answer` has to be JSON.'
  const error = schemaMismatch(schema, value)
  if (error !== undefined) return mismatchError(error)
  return isRecord(value) ? value : { answer: value }
}

function mismatchError(error: string | undefined): string {
  return `The answer does not match the schema: ${error}.`
}

/** Checks fields whose text is JSON (JSON Schema 2020-12, "Contents of Strings"). Validators do not parse them. */
function jsonTextError({ properties }: JsonSchema, content: Content): string | undefined {
  for (const [name, field] of Object.entries(isRecord(properties) ? properties : {})) {
    const text = content[name]
    const isJson = isRecord(field) && field['contentMediaType'] === 'application/json'
    if (!isJson || typeof text !== 'string' || text.trim() === '') continue
    const value = valueFromJson(text)
    if (value === undefined) return `/${name} must be JSON`
    const { contentSchema } = field
    const error = isRecord(contentSchema) ? schemaMismatch(contentSchema, value) : undefined
    if (error !== undefined) return `/${name}: its JSON ${error}`
  }
  return undefined
}

function hasField(schema: JsonSchema | undefined, name: string): boolean {
  return isRecord(schema?.['properties']) && Object.hasOwn(schema['properties'], name)
}

function holdsSecret(value: unknown, depth: number): boolean {
  if (depth === 0) return false
  if (Array.isArray(value)) return value.some((one) => holdsSecret(one, depth - 1))
  if (!isRecord(value)) return false
  if (value['format'] === 'password' || value['writeOnly'] === true) return true
  return Object.values(value).some((one) => holdsSecret(one, depth - 1))
}

function toFormSchema(schema: JsonSchema | undefined, knowsChoices: boolean): FormSchema {
  if (schema === undefined) return oneField({ type: 'string', title: 'Answer' })
  return (
    toFlatSchema(schema, knowsChoices) ??
    oneField({
      type: 'string',
      title: 'Answer (JSON)',
      description: `JSON that matches ${wholeCharacters(legibleJson(schema), MAX_MESSAGE_CHARS)}`,
    })
  )
}

function legibleJson(schema: JsonSchema): string {
  return JSON.stringify(schema, (_, value: unknown) =>
    typeof value === 'string' ? legible(value) : value,
  )
}

function oneField(field: FormField): FormSchema {
  return { type: 'object', properties: { answer: field }, required: ['answer'] }
}

/** @returns `undefined` if a form cannot express the schema */
function toFlatSchema(
  { type, properties, required }: JsonSchema,
  knowsChoices: boolean,
): FormSchema | undefined {
  if (type !== 'object' || !isRecord(properties)) return undefined
  const fields: Record<string, FormField> = {}
  for (const [name, property] of Object.entries(properties)) {
    const field = isRecord(property) ? toField(property, knowsChoices) : undefined
    if (field === undefined) return undefined
    fields[name] = field
  }
  const names = Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
  if (!names.every((name) => Object.hasOwn(fields, name))) return undefined
  return { type: 'object', properties: fields, ...(names.length > 0 && { required: names }) }
}

/** Keywords of a form field by its type. Others, such as `pattern`, are checked when the answer comes. */
const FIELD_KEYS: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'enum', 'enumNames'],
  number: ['minimum', 'maximum'],
  integer: ['minimum', 'maximum'],
  boolean: [],
  array: ['minItems', 'maxItems'],
}
const FORMATS: readonly unknown[] = ['email', 'uri', 'date', 'date-time']

/**
 * Turns a property into a form field. Leaves out values that the specification does not allow there, because a client
 * would reject the whole form.
 *
 * @returns `undefined` if a field cannot express the property
 */
function toField(property: Content, knowsChoices: boolean): FormField | undefined {
  const { enum: choices, oneOf, items, title, description, default: preset, format } = property
  const type = property['type'] ?? (isTexts(choices) ? 'string' : undefined)
  const isKnown = typeof type === 'string' && Object.hasOwn(FIELD_KEYS, type)
  const keys = isKnown ? FIELD_KEYS[type] : undefined
  if (keys === undefined) return undefined
  if (choices !== undefined && (type !== 'string' || !isTexts(choices))) return undefined
  if (type === 'array' && !knowsChoices) return undefined
  const titled = oneOf === undefined ? undefined : toTitled(oneOf)
  if (oneOf !== undefined && (type !== 'string' || titled === undefined)) return undefined
  const field = {
    type,
    ...(typeof title === 'string' && { title: legible(title) }),
    ...(typeof description === 'string' && { description: legible(description) }),
    ...(isOfType(type, preset) && { default: preset }),
    ...Object.fromEntries(keys.flatMap((key) => (key in property ? [[key, property[key]]] : []))),
    ...(type === 'string' && FORMATS.includes(format) && { format }),
    ...(titled && (knowsChoices ? { oneOf: titled } : { enum: titled.map((one) => one.const) })),
    ...(type === 'array' && { items: toItems(items) }),
  }
  return isSpecType.PrimitiveSchemaDefinition(field) ? field : undefined
}

function toItems(items: unknown): JsonSchema | undefined {
  if (!isRecord(items)) return undefined
  if (isTexts(items['enum'])) return { type: 'string', enum: items['enum'] }
  const titled = toTitled(items['anyOf'])
  return titled && { anyOf: titled }
}

/** Choices with titles. The title of a choice without one is its value. */
function toTitled(value: unknown) {
  if (!Array.isArray(value) || value.length === 0) return undefined
  const titled = value.flatMap((choice: unknown) => {
    if (!isRecord(choice) || typeof choice['const'] !== 'string') return []
    const { const: own, title } = choice
    return [{ const: own, title: legible(typeof title === 'string' ? title : own) }]
  })
  return titled.length === value.length ? titled : undefined
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string')
}

function isOfType(type: unknown, preset: unknown): boolean {
  switch (type) {
    case 'string':
    case 'boolean':
      return typeof preset === type
    case 'array':
      return isTexts(preset)
    default:
      return typeof preset === 'number'
  }
}
