import { canonicalJson, isRecord } from '@x/internal'
import type { OutputFile } from '../../files/result-files.ts'
import { valueFromJson } from '../../internal/text.ts'
import { bytesFrom, filesOfMessage, messageFrom, textOf, textOfMessage } from './content.ts'
import type { Message } from './content.ts'
import type { GraphOutput } from './definition.ts'

type Output = Exclude<GraphOutput, string>
type Values = Readonly<Record<string, unknown>>

/**
 * Makes the answer of a final state, for a graph without an `output` function. The text is the first of these that is not
 * empty: the last text of a model; texts of tools after it (`returnDirect`); `structuredResponse` or
 * `structured_response`; an earlier text of a model; texts of tools before an empty last message.
 *
 * @param start first state of the run, which has the messages and files of earlier calls of a conversation
 */
export function outputOf(state: unknown, start?: unknown): Output {
  const messages = messagesIn(state)
  if (messages === undefined)
    return isRecord(state) ? structureOf(state) : { text: plainText(state) }
  const values = isRecord(state) && Array.isArray(state['messages']) ? state : {}
  const { text, files } = saidIn(turnOf(messages, messagesIn(start)), values)
  return {
    text,
    structured: recordIn(values),
    files: [...files, ...writtenFiles(values, isRecord(start) ? start : {})],
  }
}

/** Returns the files that a run of deep agents has written so far, for a run that stops to ask. */
export function filesSoFar(state: unknown, start: unknown): readonly OutputFile[] {
  return isRecord(state) && Array.isArray(state['messages'])
    ? writtenFiles(state, isRecord(start) ? start : {})
    : []
}

/** Returns the messages of a state. The functional API may also return a list of them, or one. `undefined`: it has none. */
function messagesIn(state: unknown): readonly Message[] | undefined {
  const one = messageFrom(state)
  if (one !== undefined) return [one]
  const list = isRecord(state) ? state['messages'] : state
  if (!Array.isArray(list)) return undefined
  const messages = list.flatMap((value) => messageFrom(value) ?? [])
  return isRecord(state) || messages.length > 0 ? messages : undefined
}

/** Returns the messages of this call: those after the last message of a user that the thread had at its start. */
function turnOf(
  messages: readonly Message[],
  start: readonly Message[] | undefined,
): readonly Message[] {
  const known = start ?? messages
  const asked = known.findLastIndex(({ kind }) => kind === 'human')
  const older = new Set(known.slice(0, asked + 1).map(({ id }) => id))
  older.delete(undefined)
  const turn =
    start === undefined ? messages.slice(asked + 1) : messages.filter(({ id }) => !older.has(id))
  // A graph may also end with a message that it wrote in the name of the user.
  return turn.some(({ kind }) => kind === 'ai') || start !== undefined ? turn : messages
}

/** Chooses the text, and the files beside it. */
function saidIn(
  turn: readonly Message[],
  values: Values,
): Output & { readonly files: readonly OutputFile[] } {
  const messages = turn.filter((message) => !isHandoff(message))
  const end = messages.findLastIndex(({ kind }) => kind === 'ai')
  const last = messages[end]
  const after = messages.slice(end + 1).filter(({ kind }) => kind === 'tool')
  const structured = recordIn(values)
  const tools = structured === undefined ? after : after.filter((one) => !isReport(one))
  const files = (last === undefined ? tools : [last, ...tools]).flatMap(filesOfMessage)
  const other = structured === undefined ? otherStructure(values) : undefined
  const isRepeated = last !== undefined && structureIn(values) !== undefined && isReport(last)
  const text = last === undefined || isRepeated ? '' : textOfMessage(last)
  if (text !== '' && tools.length === 0) return { text: both(text, other), files }
  const direct = textsOf(tools)
  if (direct !== '' || structured !== undefined || other !== undefined || files.length > 0) {
    return { text: direct === '' ? (other ?? '') : both(direct, other), files }
  }
  const earlier = messages.findLast((one) => one.kind === 'ai' && textOfMessage(one) !== '')
  const before = messages.filter(({ kind }) => kind === 'tool')
  const found = earlier === undefined ? textsOf(before) : textOfMessage(earlier)
  return { text: found === '' ? undefined : found, files }
}

/** Adds a list or another value that is not an object to the text, unless the text is that value. */
function both(text: string, other: string | undefined): string {
  if (other === undefined || text.trim() === other) return text
  const [said, structure] = [valueFromJson(text), valueFromJson(other)]
  const isSame = said !== undefined && canonicalJson(said) === canonicalJson(structure)
  return isSame ? text : `${text}\n\n${other}`
}

function textsOf(messages: readonly Message[]): string {
  const texts = messages.map(textOfMessage)
  return texts.filter((text) => text !== '').join('\n')
}

const TRANSFER = /^transfer_(?:back_)?to_/

/** Whether a message only passes the conversation from one agent to another (supervisor and swarm of LangGraph). */
function isHandoff({ calls, kind, name }: Message): boolean {
  if (kind === 'tool') return TRANSFER.test(name ?? '')
  return kind === 'ai' && calls.length > 0 && calls.every((call) => TRANSFER.test(call.name))
}

/** Whether a message only repeats the structured response, as agents of LangChain end. */
function isReport(message: Message): boolean {
  return textOfMessage(message).startsWith('Returning structured response')
}

// ---- structures ----------------------------------------------------------------------------------------------------

function structureIn({ structuredResponse, structured_response: python }: Values): unknown {
  return structuredResponse ?? python ?? undefined
}

function recordIn(values: Values): Values | undefined {
  const structure = structureIn(values)
  return isRecord(structure) ? structure : undefined
}

/** Returns a structured response that is a list, a text or another plain value, as text. */
function otherStructure(values: Values): string | undefined {
  const text = plainText(structureIn(values))
  return text === '' ? undefined : text
}

/** A state without messages is the result itself. */
function structureOf(state: Values): Output {
  return { text: '', structured: recordIn(state) ?? plainFrom(state) }
}

function plainText(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value === 'string') return value
  return typeof value === 'bigint' ? value.toString() : jsonOf(value)
}

/** Returns a state as JSON. `undefined` for values that JSON does not have. */
function plainFrom(state: object): Values | undefined {
  const value = valueFromJson(jsonOf(state))
  return isRecord(value) ? value : undefined
}

function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

// ---- files of deep agents ------------------------------------------------------------------------------------------

/** Folders in which deep agents keep long results of tools and old messages for themselves. */
const INTERNAL = /^\/?(?:large_tool_results|conversation_history)\//

/** Returns the files in the state of deep agents that are new or changed since `start`. */
function writtenFiles({ files }: Values, { files: known }: Values): readonly OutputFile[] {
  if (!isRecord(files)) return []
  return Object.entries(files).flatMap(([path, file]) => {
    const name = path.replace(/^\/+/, '')
    if (name === '' || INTERNAL.test(path)) return []
    const { data, mimeType } = writtenFile(file) ?? {}
    if (data === undefined) return []
    const before = isRecord(known) ? known[path] : undefined
    return isSameFile(file, before) ? [] : [{ name, mimeType, data }]
  })
}

/** Reads a file of deep agents: its text, or an object with its text, its lines or its bytes. */
function writtenFile(file: unknown): Pick<OutputFile, 'data' | 'mimeType'> | undefined {
  if (typeof file === 'string') return { data: Buffer.from(file), mimeType: undefined }
  if (!isRecord(file)) return undefined
  const { content } = file
  const mimeType = textOf(file['mimeType'])
  const encoding = file['encoding'] === 'base64' ? 'base64' : 'utf8'
  if (typeof content === 'string') return { data: Buffer.from(content, encoding), mimeType }
  const isLines = Array.isArray(content) && content.every((line) => typeof line === 'string')
  const data = isLines ? Buffer.from(content.join('\n')) : bytesFrom(content)
  return data && { data, mimeType }
}

function isSameFile(file: unknown, before: unknown): boolean {
  if (file === before) return true
  if (!isRecord(file) || !isRecord(before)) return false
  return file['modified_at'] === before['modified_at'] && jsonOf(file) === jsonOf(before)
}
