import { isRecord } from '@x/internal'
import mime from 'mime'
import { bareType, isTextType, textFrom } from '../../files/media-types.ts'
import type { InputFile, OutputFile } from '../../files/result-files.ts'
import { messageFieldOf, type AgentInput, type AgentUpdate, type JsonSchema } from '../agent.ts'
import type { GraphOutput } from './definition.ts'
import { interruptsFrom, type GraphInterrupt } from './interrupts.ts'

/** Largest file that a message contains. The message names larger files and their URIs. */
const MAX_INLINE_BYTES = 5 * 1024 * 1024

/** Makes the input of a graph with messages. */
export async function messageStateOf(
  input: AgentInput,
  signal: AbortSignal,
): Promise<{ readonly messages: readonly unknown[] }> {
  const text = input.kind === 'message' ? input.text : JSON.stringify(input.value)
  if (input.files.length === 0) return { messages: [{ role: 'user', content: text }] }
  const blocks = await Promise.all(input.files.map((file) => blockOf(file, signal)))
  return { messages: [{ role: 'user', content: [{ type: 'text', text }, ...blocks] }] }
}

/**
 * Makes the input of a graph with a schema. A message becomes the property for text, if there is one.
 *
 * @returns `undefined` if there is none
 */
export function argumentStateOf(
  input: AgentInput,
  schema: JsonSchema | undefined,
): Readonly<Record<string, unknown>> | undefined {
  if (input.kind === 'arguments') return input.value
  const field = schema && messageFieldOf(schema)
  return field === undefined ? undefined : { [field]: input.text }
}

async function blockOf(file: InputFile, signal: AbortSignal): Promise<object> {
  const { uri, name, mimeType, size } = file
  const kind = blockTypeFor(mimeType)
  const named = { type: 'text', text: `File "${name}" (${mimeType}, ${size} bytes): ${uri}` }
  if (kind === undefined || size > MAX_INLINE_BYTES) return named
  const chunks: Uint8Array[] = []
  for await (const chunk of file.read(signal)) chunks.push(chunk)
  const bytes = Buffer.concat(chunks)
  if (kind !== 'text') {
    return { type: kind, mimeType, data: bytes.toString('base64'), metadata: { filename: name } }
  }
  const text = textFrom(bytes)
  return text === undefined ? named : { type: 'text', text: `File "${name}":\n${text}` }
}

/** Returns the type of the block for a file. `undefined` if models cannot read such a file. */
function blockTypeFor(mimeType: string): 'text' | 'image' | 'audio' | 'file' | undefined {
  if (isTextType(mimeType)) return 'text'
  const type = bareType(mimeType)
  if (type.startsWith('image/')) return 'image'
  if (type.startsWith('audio/')) return 'audio'
  return type === 'application/pdf' ? 'file' : undefined
}

export const STREAM_MODES = ['messages', 'updates', 'custom', 'values'] as const

/** Last state, interrupts and message of the stream of a graph. */
export interface GraphEnd {
  state: unknown
  interrupts: readonly GraphInterrupt[]
  /** Id of the message of the last piece of text. */
  messageId?: unknown
}

/** Reads one chunk of `graph.stream()` with `subgraphs: true`: an update, or a part of the end. */
export function readChunk(chunk: unknown, end: GraphEnd): AgentUpdate | undefined {
  if (!Array.isArray(chunk)) return undefined
  const [path, mode, payload]: readonly unknown[] = chunk
  const isRoot = Array.isArray(path) && path.length === 0
  switch (mode) {
    case 'messages':
      return textUpdate(payload, end)
    case 'custom':
      return customUpdate(payload)
    case 'updates':
      return isRoot ? stepUpdate(payload) : undefined
    case 'values':
      if (isRoot) readValues(payload, end)
      return undefined
    default:
      return undefined
  }
}

/** Reads a piece of a message. Each message starts on a line of its own. */
function textUpdate(payload: unknown, end: GraphEnd): AgentUpdate | undefined {
  const message: unknown = Array.isArray(payload) ? payload[0] : undefined
  if (!isModelMessage(message)) return undefined
  const text = textOfMessage(message)
  if (text === '') return undefined
  const { id } = message
  const isNext = end.messageId !== undefined && id !== undefined && id !== end.messageId
  end.messageId = id ?? end.messageId
  return { type: 'text', text: isNext ? `\n${text}` : text }
}

function stepUpdate(payload: unknown): AgentUpdate | undefined {
  const names = isRecord(payload)
    ? Object.keys(payload).filter((name) => !name.startsWith('__'))
    : []
  return names.length === 0 ? undefined : { type: 'status', text: `Done: ${names.join(', ')}` }
}

/**
 * Collects interrupts until the stream ends: parallel nodes send theirs one by one, and the state of another node may
 * follow.
 */
function readValues(payload: unknown, end: GraphEnd): void {
  const found = isRecord(payload) ? payload['__interrupt__'] : undefined
  if (!Array.isArray(found)) {
    end.state = payload
    return
  }
  const known = new Set(end.interrupts.map(({ id }) => id))
  const fresh = interruptsFrom(found).filter(({ id }) => id === undefined || !known.has(id))
  end.interrupts = [...end.interrupts, ...fresh]
}

/**
 * Reads an event that a node sent with its `writer`. `{ type: 'artifact', name, mimeType?, data | text | url }` is a
 * file, with `data` as bytes or base64. `{ type: 'status', text }` is a line of progress, `{ type: 'text', text }` a
 * piece of the answer. Other events are ignored.
 */
function customUpdate(event: unknown): AgentUpdate | undefined {
  if (!isRecord(event)) return undefined
  const { type, name, text } = event
  if ((type === 'status' || type === 'text') && typeof text === 'string') return { type, text }
  if (type !== 'artifact' || typeof name !== 'string') return undefined
  const found = contentOf(event)
  if (found === undefined) return undefined
  return { type: 'file', file: { name, mimeType: textOf(event['mimeType']), data: found.data } }
}

/**
 * Reads bytes, or their JSON from a server: an array, the form of `Buffer.toJSON`, or the object that `JSON.stringify`
 * makes of a `Uint8Array`. `undefined` for other values.
 */
function bytesFrom(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value
  if (value instanceof ArrayBuffer) return new Uint8Array(value)
  if (isRecord(value) && value['type'] === 'Buffer') return bytesFrom(value['data'])
  const values: readonly unknown[] | undefined = Array.isArray(value) ? value : indexedValues(value)
  if (values === undefined || !values.every(isByte)) return undefined
  return Uint8Array.from(values)
}

/** Returns the values of an object whose keys are 0, 1, 2 and so on. */
function indexedValues(value: unknown): readonly unknown[] | undefined {
  if (!isRecord(value)) return undefined
  const keys = Object.keys(value)
  const isComplete = keys.length > 0 && keys.every((key, index) => key === String(index))
  return isComplete ? Object.values(value) : undefined
}

function isByte(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 255
}

/** Makes the answer of a final state, for a graph without an `output` function. */
export function outputOf(state: unknown): Exclude<GraphOutput, string> {
  if (!isRecord(state)) return { text: typeof state === 'string' ? state : undefined }
  const { messages, structuredResponse } = state
  const structured = isRecord(structuredResponse) ? structuredResponse : undefined
  if (!Array.isArray(messages)) return { text: '', structured: structured ?? plainFrom(state) }
  const last = messages.findLast(isModelMessage)
  if (last === undefined) return { structured }
  return { text: textOfMessage(last), structured, files: filesOf(last.content) }
}

/** The part of a message that is read. Another copy of LangChain may have made it. */
interface ModelMessage {
  readonly content: unknown
  readonly id: unknown
}

function isModelMessage(value: unknown): value is ModelMessage {
  if (!isRecord(value) || !('content' in value)) return false
  const { getType } = value
  if (typeof getType === 'function') return getType.call(value) === 'ai'
  const { type } = value
  return type === 'ai' || type === 'AIMessageChunk' || value['role'] === 'assistant'
}

function textOfMessage({ content }: ModelMessage): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((block: unknown) => {
      if (typeof block === 'string') return block
      const isText = isRecord(block) && block['type'] === 'text'
      return isText && typeof block['text'] === 'string' ? block['text'] : ''
    })
    .join('')
}

/** Returns a state as JSON. `undefined` for values that JSON does not have. */
function plainFrom(state: object): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(JSON.stringify(state))
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

const FILE_TYPES = /^(?:image|audio|video|file|image_url|text-plain)$/

/** Finds files in a message: standard blocks of LangChain, and their older forms. */
function filesOf(content: unknown): readonly OutputFile[] {
  if (!Array.isArray(content)) return []
  const files: OutputFile[] = []
  for (const block of content) {
    if (!isRecord(block) || !FILE_TYPES.test(String(block['type']))) continue
    const file = fileFrom(block, files.length + 1)
    if (file !== undefined) files.push(file)
  }
  return files
}

function fileFrom(block: Readonly<Record<string, unknown>>, count: number): OutputFile | undefined {
  const declared = textOf(block['mimeType']) ?? textOf(block['mime_type'])
  const found = contentOf(block)
  if (found === undefined) return undefined
  const mimeType = declared ?? found.mimeType
  return { name: nameOf(block, mimeType, count), mimeType, data: found.data }
}

interface Found {
  readonly data: OutputFile['data']
  readonly mimeType: string | undefined
}

function contentOf(block: Readonly<Record<string, unknown>>): Found | undefined {
  const { data, text } = block
  const bytes = bytesFrom(data)
  const mimeType = undefined
  if (bytes !== undefined) return { data: bytes, mimeType }
  if (typeof data === 'string') {
    return dataUrlFrom(data) ?? { data: Buffer.from(data, 'base64'), mimeType }
  }
  if (typeof text === 'string') return { data: Buffer.from(text), mimeType: 'text/plain' }
  const nested = block['image_url']
  const url = textOf(block['url']) ?? textOf(isRecord(nested) ? nested['url'] : nested)
  if (url === undefined) return undefined
  return dataUrlFrom(url) ?? { data: { url }, mimeType }
}

/** @returns `undefined` for any other URL */
function dataUrlFrom(url: string): Found | undefined {
  const match = /^data:([^;,]*)((?:;[^;,]*)*),/.exec(url)
  if (match === null) return undefined
  const body = url.slice(match[0].length)
  const isBase64 = match[2]?.endsWith(';base64') === true
  const mimeType = match[1] === '' ? undefined : match[1]
  try {
    const data = isBase64 ? Buffer.from(body, 'base64') : Buffer.from(decodeURIComponent(body))
    return { data, mimeType }
  } catch {
    return undefined
  }
}

function nameOf(
  block: Readonly<Record<string, unknown>>,
  mimeType: string | undefined,
  count: number,
): string {
  const metadata = isRecord(block['metadata']) ? block['metadata'] : {}
  const names = [block['filename'], block['name'], metadata['filename'], metadata['name']]
  const given = names.map(textOf).find((name) => name !== undefined)
  if (given !== undefined) return given
  const kind = block['type'] === 'image_url' ? 'image' : String(block['type'])
  const ending = mime.getExtension(mimeType ?? '')
  return `${kind}-${count}${ending === null ? '' : `.${ending}`}`
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
