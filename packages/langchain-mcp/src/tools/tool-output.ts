import type { ContentBlock } from '@langchain/core/messages'
import { canonicalJson, isRecord } from '@x/internal'
import type { ToolResult } from '../base/tool-source.ts'

/** About 25 000 tokens: what a model can still do something with, and a conversation bears. */
const MAX_TEXT_CHARACTERS = 100_000

const MAX_MEDIA_BYTES = 10 * 1024 * 1024

/**
 * What the application gets beside the message, in the order listed here; entries that would hold nothing
 * are left out. Names and shapes are those of LangChain's own MCP adapters, so that a graph can move.
 */
export type McpArtifactEntry =
  | {
      readonly type: 'mcp_structured_content'
      /** `structuredContent` of the result. */
      readonly data: unknown
    }
  | {
      readonly type: 'mcp_meta'
      /** `_meta` of the result. */
      readonly data: Readonly<Record<string, unknown>>
    }
  | {
      readonly type: 'mcp_content'
      /** The blocks as the server sent them, without fields that are `null`. */
      readonly data: readonly unknown[]
    }
  | {
      readonly type: 'mcp_session'
      /** Only where the server lost the session that the caller had used: what it kept there is gone. */
      readonly data: { readonly replaced: true; readonly epoch: number; readonly reason: string }
    }

export interface ToolOutput {
  /** For the model: a string if the result is exactly one text. */
  readonly content: string | ContentBlock[]
  /** For the application. */
  readonly artifact: McpArtifactEntry[]
}

export interface ToolOutputOptions {
  /** `'blocks'`: a list also for a single text. @default 'auto' */
  readonly output?: 'auto' | 'blocks' | undefined
  /**
   * Texts longer than this, taken together, are cut, with a note to the model; the artifact holds all of
   * it. `Infinity` for no limit. @default 100_000
   */
  readonly maxTextCharacters?: number | undefined
  /**
   * Images, audio and files that are larger than this in bytes, taken together, are left out from where
   * they pass it, with a note to the model; the artifact holds them. `Infinity` for no limit. @default 10_485_760
   */
  readonly maxMediaBytes?: number | undefined
  /**
   * Parts of a result that the model shall see, too, as JSON text after the content. Structured content
   * that is there as a text already is not shown twice. @default none
   */
  readonly showToModel?: readonly ('structuredContent' | '_meta')[] | undefined
}

/**
 * Maps the result of `tools/call` to LangChain content and artifact. Order is kept, links are never
 * fetched, and a block of unknown type is shown as JSON. A result without any content shows its
 * structured content, else `''`.
 */
export function toolOutputFrom(result: ToolResult, options: ToolOutputOptions = {}): ToolOutput {
  const {
    output = 'auto',
    maxTextCharacters = MAX_TEXT_CHARACTERS,
    maxMediaBytes = MAX_MEDIA_BYTES,
    showToModel = [],
  } = options
  const raw = (result.content ?? []).map(withoutNulls)
  const artifact = artifactOf(result, raw)
  const plain = output === 'auto' && showToModel.length === 0 ? onlyTextOf(raw) : undefined
  if (plain !== undefined && plain.length <= maxTextCharacters) return { content: plain, artifact }
  const shown =
    raw.length === 0 && hasStructure(result) && !showToModel.includes('structuredContent')
      ? [textBlock(JSON.stringify(result.structuredContent))]
      : [...raw.map(contentBlockFrom), ...shownParts(result, showToModel)]
  const blocks = cutTexts(withoutLargeMedia(shown, maxMediaBytes), maxTextCharacters)
  if (output === 'blocks') return { content: blocks, artifact }
  const [only, ...others] = blocks
  if (only === undefined) return { content: '', artifact }
  const [first] = raw
  const isPlainText = first === undefined || (isRecord(first) && first['type'] === 'text')
  if (others.length === 0 && isPlainText && only.type === 'text' && typeof only.text === 'string') {
    return { content: only.text, artifact }
  }
  return { content: blocks, artifact }
}

/** The same with a text at its end. */
export function withNote(content: ToolOutput['content'], note: string): ToolOutput['content'] {
  if (typeof content !== 'string') return [...content, textBlock(note)]
  return content === '' ? note : `${content}\n${note}`
}

/** All texts of a content, for messages that are text only. */
export function textOf(content: ToolOutput['content']): string {
  if (typeof content === 'string') return content
  return content
    .map((block) => (block.type === 'text' && typeof block.text === 'string' ? block.text : ''))
    .filter((text) => text !== '')
    .join('\n')
}

/** What most tools answer: nothing has to be cut, left out or put in order. */
function onlyTextOf(blocks: readonly unknown[]): string | undefined {
  const [block] = blocks
  if (blocks.length !== 1 || !isRecord(block) || block['type'] !== 'text') return undefined
  return typeof block['text'] === 'string' ? block['text'] : undefined
}

function artifactOf(result: ToolResult, raw: readonly unknown[]): McpArtifactEntry[] {
  const entries: McpArtifactEntry[] = []
  if (result.structuredContent !== undefined && result.structuredContent !== null) {
    entries.push({ type: 'mcp_structured_content', data: result.structuredContent })
  }
  const { _meta: meta = {} } = result
  if (Object.keys(meta).length > 0) entries.push({ type: 'mcp_meta', data: meta })
  if (raw.length > 0) entries.push({ type: 'mcp_content', data: raw })
  return entries
}

function hasStructure({ structuredContent }: ToolResult): boolean {
  return structuredContent !== undefined && structuredContent !== null
}

function shownParts(
  result: ToolResult,
  parts: readonly ('structuredContent' | '_meta')[],
): ContentBlock[] {
  const blocks: ContentBlock[] = []
  if (parts.includes('structuredContent') && hasStructure(result) && !isToldAlready(result)) {
    blocks.push(textBlock(JSON.stringify(result.structuredContent)))
  }
  const { _meta: meta = {} } = result
  if (parts.includes('_meta') && Object.keys(meta).length > 0) {
    blocks.push(textBlock(`_meta: ${JSON.stringify(meta)}`))
  }
  return blocks
}

/** Servers should send structured content as a text as well (specification 2025-11-25, "Structured Content"). */
function isToldAlready({ content = [], structuredContent }: ToolResult): boolean {
  const wanted = canonicalJson(structuredContent)
  return content.some((block) => {
    if (!isRecord(block) || typeof block['text'] !== 'string') return false
    try {
      return canonicalJson(JSON.parse(block['text'])) === wanted
    } catch {
      return false
    }
  })
}

/** Of media whose server does not say what they are. */
const UNKNOWN_TYPE = 'application/octet-stream'

/** A block of a result, a prompt or anything else that has content, as LangChain's standard block. */
export function contentBlockFrom(block: unknown): ContentBlock {
  if (!isRecord(block)) return textBlock(JSON.stringify(block) ?? '')
  const { type, text, data, mimeType } = block
  if (type === 'text' && typeof text === 'string') return textBlock(text)
  if ((type === 'image' || type === 'audio') && typeof data === 'string') {
    return { type, data, mimeType: typeof mimeType === 'string' ? mimeType : UNKNOWN_TYPE }
  }
  if (type === 'resource' && isRecord(block['resource'])) return resourceBlock(block['resource'])
  if (type === 'resource_link') return linkBlock(block)
  return textBlock(JSON.stringify(block))
}

function resourceBlock(resource: Readonly<Record<string, unknown>>): ContentBlock {
  const { uri, mimeType, text, blob } = resource
  const where = typeof uri === 'string' ? uri : 'without address'
  if (typeof text === 'string') return textBlock(`Resource ${where}:\n${text}`)
  if (typeof blob === 'string') {
    const mime = typeof mimeType === 'string' ? mimeType : UNKNOWN_TYPE
    return { type: mediaTypeOf(mime), data: blob, mimeType: mime, metadata: { uri: where } }
  }
  return textBlock(JSON.stringify({ type: 'resource', resource }))
}

function mediaTypeOf(mimeType: string): 'image' | 'audio' | 'file' {
  if (mimeType.startsWith('image/')) return 'image'
  return mimeType.startsWith('audio/') ? 'audio' : 'file'
}

function linkBlock(link: Readonly<Record<string, unknown>>): ContentBlock {
  const { uri, name, title, mimeType, description } = link
  const label = [title, name].find((value) => typeof value === 'string') ?? 'unnamed'
  const type = typeof mimeType === 'string' ? ` (${mimeType})` : ''
  const about = typeof description === 'string' ? `: ${description}` : ''
  return textBlock(`Resource link "${label}" ${String(uri)}${type}${about}`)
}

function textBlock(text: string): ContentBlock.Text {
  return { type: 'text', text }
}

/** Python servers send absent fields as `null`. Fields of the block only: inside `_meta` and data a `null` means something. */
function withoutNulls(block: unknown): unknown {
  if (!isRecord(block) || !hasNulls(block)) return block
  const fields = Object.entries(block).filter(([, field]) => field !== null && field !== undefined)
  return Object.fromEntries(
    fields.map(([key, field]) => [key, key === 'resource' ? withoutNulls(field) : field]),
  )
}

function hasNulls(block: Readonly<Record<string, unknown>>): boolean {
  for (const key in block) {
    const field = block[key]
    if (field === null || field === undefined) return true
    if (key === 'resource' && isRecord(field) && hasNulls(field)) return true
  }
  return false
}

/** Providers refuse a message that is too large, and with it the whole conversation. */
function withoutLargeMedia(blocks: readonly ContentBlock[], limit: number): ContentBlock[] {
  let left = limit
  return blocks.map((block) => {
    if (block.type === 'text' || typeof block['data'] !== 'string') return block
    const bytes = Math.floor((block['data'].length * 3) / 4)
    left -= bytes
    if (left >= 0) return block
    const mimeType = typeof block['mimeType'] === 'string' ? block['mimeType'] : UNKNOWN_TYPE
    return textBlock(
      `[Left out: ${block.type} (${mimeType}) of ${bytes} bytes, which is more than can be shown.]`,
    )
  })
}

/** Cuts where the sum of all texts passes the limit; what is not text is never touched. */
function cutTexts(blocks: readonly ContentBlock[], limit: number): ContentBlock[] {
  const total = blocks.reduce((sum, block) => sum + lengthOf(block), 0)
  if (total <= limit) return [...blocks]
  let left = limit
  const kept: ContentBlock[] = []
  for (const block of blocks) {
    if (block.type !== 'text' || typeof block.text !== 'string') {
      kept.push(block)
      continue
    }
    if (left > 0) kept.push(textBlock(startOf(block.text, left)))
    left -= block.text.length
  }
  const note = `[Cut: this result has ${total} characters of text, the first ${limit} are shown. Ask for a smaller part if you need the rest.]`
  const lastText = kept.findLastIndex((block) => block.type === 'text')
  const last = kept[lastText]
  if (last === undefined || typeof last.text !== 'string') return [...kept, textBlock(note)]
  return kept.with(lastText, textBlock(`${last.text}\n${note}`))
}

function lengthOf(block: ContentBlock): number {
  return block.type === 'text' && typeof block.text === 'string' ? block.text.length : 0
}

/** Never ends in half of a surrogate pair: providers refuse such text. */
function startOf(text: string, length: number): string {
  const last = text.charCodeAt(length - 1)
  const isHighSurrogate = last >= 0xd8_00 && last <= 0xdb_ff
  return text.slice(0, isHighSurrogate ? length - 1 : length)
}
