import { isRecord } from '@x/internal'
import type { JsonSchema } from '../../agents/agent.ts'
import type { Question } from '../../agents/agent-update.ts'
import { complaintOf } from './answer-schema.ts'
import { formFieldFrom, type FormFieldOptions } from './form-field.ts'

/** A question as a client can show it: a flat form, whatever shape the agent wants its answer in. */
export interface QuestionForm {
  /** Names its answer among those of a round: `i0`, `i1`, … */
  readonly key: string
  readonly message: string
  /** An object of strings, numbers, booleans and choices, as forms allow it (specification 2026-07-28, "Elicitation"). */
  readonly requestedSchema: FormSchema
  /** A page to visit instead, for clients that can send somebody there. */
  readonly url?: string | undefined
}

interface FormSchema {
  readonly type: 'object'
  readonly properties: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[] | undefined
}

/** What a filled form says, in the shape that the agent asked for; or what is wrong with it. */
export type FormReading =
  | { readonly ok: true; readonly content: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly complaint: string }

const MAX_MESSAGE_CHARS = 4000

export function keyOf(index: number): string {
  return `i${index}`
}

/** How a question is asked. */
export interface FormOptions extends FormFieldOptions {
  /** What was wrong with the answer that came. @default none came */
  readonly complaint?: string | undefined
}

export function formOf(
  question: Question,
  index: number,
  { complaint, ...options }: FormOptions = {},
): QuestionForm {
  const key = keyOf(index)
  const text = question.message.slice(0, MAX_MESSAGE_CHARS)
  const message = complaint === undefined ? text : `${text}\n(${complaint})`
  const { url, schema } = question
  if (url === undefined) return { key, message, requestedSchema: flatSchemaOf(schema, options) }
  // Clients open it: an agent, or a server that asks through one, may name a program or a file of the user's.
  if (!isWebPage(url)) return { key, message, requestedSchema: VISITED }
  return { key, message, requestedSchema: VISITED, url }
}

function isWebPage(url: string): boolean {
  return /^https?:\/\//i.test(url) && URL.canParse(url)
}

/** Of a page that was visited there is nothing to tell. */
const VISITED: FormSchema = { type: 'object', properties: {} }

/** Reads what a client sent for a form. Never trusts it. */
export function readForm(
  question: Question,
  content: Readonly<Record<string, unknown>>,
): FormReading {
  const { schema, url } = question
  if (url !== undefined) return { ok: true, content: {} }
  if (schema === undefined) {
    return typeof content['answer'] === 'string'
      ? { ok: true, content: { answer: content['answer'] } }
      : { ok: false, complaint: 'An `answer` is needed, as text.' }
  }
  const isForm = flatFrom(schema) !== undefined
  const complaint = complaintOf(schema, content) ?? jsonComplaintOf(schema, content)
  const isText = typeof content['answer'] === 'string' && !hasField(schema, 'answer')
  // To a client that knows fewer fields than others it was no form.
  const fromText = isForm && isText ? readJson(schema, content) : undefined
  if (fromText?.ok) return fromText
  // A client that is no form may well have answered a deep schema in its own shape.
  if (complaint === undefined && (isForm || !isText)) return { ok: true, content }
  return isForm
    ? { ok: false, complaint: `The answer does not fit: ${complaint}.` }
    : readJson(schema, content)
}

/** Whether a schema names such a property. */
export function hasField(schema: JsonSchema | undefined, name: string): boolean {
  return isRecord(schema?.['properties']) && Object.hasOwn(schema['properties'], name)
}

function readJson(schema: JsonSchema, content: Readonly<Record<string, unknown>>): FormReading {
  const value = jsonFrom(content['answer'])
  if (value === undefined) return { ok: false, complaint: 'The `answer` has to be JSON.' }
  const complaint = complaintOf(schema, value)
  if (complaint !== undefined) {
    return { ok: false, complaint: `The answer does not fit: ${complaint}.` }
  }
  return { ok: true, content: isRecord(value) ? value : { answer: value } }
}

/** Of fields whose text is JSON (JSON Schema 2020-12, "Contents of Strings"), which a validator does not look into. */
function jsonComplaintOf(
  { properties }: JsonSchema,
  content: Readonly<Record<string, unknown>>,
): string | undefined {
  for (const [name, field] of Object.entries(isRecord(properties) ? properties : {})) {
    const text = content[name]
    const isJson = isRecord(field) && field['contentMediaType'] === 'application/json'
    if (!isJson || typeof text !== 'string' || text.trim() === '') continue
    const value = jsonFrom(text)
    if (value === undefined) return `/${name} must be JSON`
    const { contentSchema } = field
    const complaint = isRecord(contentSchema) ? complaintOf(contentSchema, value) : undefined
    if (complaint !== undefined) return `/${name}: its JSON ${complaint}`
  }
  return undefined
}

function jsonFrom(text: unknown): unknown {
  if (typeof text !== 'string') return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function flatSchemaOf(schema: JsonSchema | undefined, options: FormFieldOptions): FormSchema {
  if (schema === undefined) return oneField({ type: 'string', title: 'Answer' })
  return (
    flatFrom(schema, options) ??
    oneField({
      type: 'string',
      title: 'Answer (JSON)',
      description: `JSON that matches ${JSON.stringify(schema).slice(0, MAX_MESSAGE_CHARS)}`,
    })
  )
}

function oneField(field: JsonSchema): FormSchema {
  return { type: 'object', properties: { answer: field }, required: ['answer'] }
}

/** The schema as forms allow it; `undefined`: it is deeper than a form. */
function flatFrom(schema: JsonSchema, options: FormFieldOptions = {}): FormSchema | undefined {
  const { type, properties, required } = schema
  if (type !== 'object' || !isRecord(properties)) return undefined
  const fields: Record<string, JsonSchema> = {}
  for (const [name, property] of Object.entries(properties)) {
    const field = isRecord(property) ? formFieldFrom(property, options) : undefined
    if (field === undefined) return undefined
    fields[name] = field
  }
  const names = Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
  if (!names.every((name) => Object.hasOwn(fields, name))) return undefined
  return { type: 'object', properties: fields, ...(names.length > 0 && { required: names }) }
}
