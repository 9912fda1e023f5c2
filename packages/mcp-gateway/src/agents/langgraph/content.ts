import { isRecord } from '@x/internal'
import mime from 'mime'
import type { OutputFile } from '../../files/result-files.ts'
import type { ModelUsage } from '../../internal/run-event.ts'

/** The part of a message that is read. Another copy of LangChain may have made it, or a server may have sent it as JSON. */
export interface Message {
  readonly kind: 'ai' | 'tool' | 'human' | 'other'
  readonly content: unknown
  readonly id: unknown
  readonly name: string | undefined
  /** Names and arguments of the tools that the model calls. */
  readonly calls: readonly { readonly name: string; readonly args: unknown }[]
  /** Why a model did not answer, where its provider keeps that beside the content. */
  readonly refusal: string | undefined
  /** Tokens of this message, or of this piece of it. */
  readonly usage: ModelUsage | undefined
}

const KINDS: Readonly<Record<string, Message['kind']>> = {
  ai: 'ai',
  AIMessageChunk: 'ai',
  assistant: 'ai',
  tool: 'tool',
  ToolMessageChunk: 'tool',
  function: 'tool',
  human: 'human',
  HumanMessageChunk: 'human',
  user: 'human',
  system: 'other',
  developer: 'other',
  generic: 'other',
  chat: 'other',
  remove: 'other',
}

/** Reads a message: an object of LangChain, its JSON, `{ role, content }`, or `[role, content]`. `undefined` for other values. */
export function messageFrom(value: unknown): Message | undefined {
  if (Array.isArray(value)) {
    const [role, content]: readonly unknown[] = value
    const isPair = value.length === 2 && typeof role === 'string' && typeof content === 'string'
    return isPair && role in KINDS ? messageFrom({ role, content }) : undefined
  }
  if (!isRecord(value)) return undefined
  const { getType, kwargs, lc, id: path } = value
  if (lc === 1 && isRecord(kwargs) && Array.isArray(path)) {
    const type = String(path.at(-1)).replace(/Message(?:Chunk)?$/, '')
    return messageFrom({ ...kwargs, type: type.toLowerCase() })
  }
  if (!('content' in value)) return undefined
  const role = value['role']
  const type: unknown = typeof getType === 'function' ? getType.call(value) : value['type']
  const kind = KINDS[String(role)] ?? KINDS[String(type)]
  if (kind === undefined) return undefined
  const { additional_kwargs: more, content, id, name, tool_calls: calls } = value
  const refusal = isRecord(more) ? more['refusal'] : undefined
  return {
    kind,
    content,
    id,
    name: textOf(name),
    calls: Array.isArray(calls) ? calls.flatMap(callFrom) : [],
    refusal: textOf(refusal),
    usage: usageFrom(value['usage_metadata']),
  }
}

function usageFrom(value: unknown): ModelUsage | undefined {
  if (!isRecord(value)) return undefined
  const inputTokens = countFrom(value['input_tokens'])
  const outputTokens = countFrom(value['output_tokens'])
  return inputTokens + outputTokens > 0 ? { inputTokens, outputTokens } : undefined
}

function countFrom(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
}

function callFrom(value: unknown): Message['calls'] {
  if (!isRecord(value)) return []
  const { args, name } = value
  return typeof name === 'string' ? [{ name, args }] : []
}

/** Returns the text of a message. */
export function textOfMessage({ content, refusal = '' }: Message): string {
  if (typeof content === 'string') return content || refusal
  if (!Array.isArray(content)) return refusal
  const text = content.map(textOfBlock).join('')
  return text || refusal
}

function textOfBlock(block: unknown): string {
  if (typeof block === 'string') return block
  if (!isRecord(block)) return ''
  const { refusal, text, type } = block
  if (type === 'text' || type === 'output_text') return typeof text === 'string' ? text : ''
  return type === 'refusal' && typeof refusal === 'string' ? refusal : ''
}

const FILE_TYPES = /^(?:image|audio|video|file|image_url|text-plain)$/

/** Finds files in a message: standard blocks of LangChain, and their older forms. */
export function filesOfMessage({ content }: Message): readonly OutputFile[] {
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

/** Finds the bytes or the URL of a file in a block or an event. */
export function contentOf(block: Readonly<Record<string, unknown>>): Found | undefined {
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

/** @returns `undefined` for anything else, and for the empty text */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/**
 * Reads bytes, or their JSON from a server: an array, the form of `Buffer.toJSON`, or the object that `JSON.stringify`
 * makes of a `Uint8Array`. `undefined` for other values.
 */
export function bytesFrom(value: unknown): Uint8Array | undefined {
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
