import type { ContentBlock } from '@langchain/core/messages'
import { canonicalJson, isRecord } from '@x/internal'
import type { ToolResult } from '../catalogue/tool-source.ts'
import { contentBlockFrom, textBlock, withoutNulls } from './content-block.ts'
import { cutTexts, withoutLargeMedia } from './output-limits.ts'

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
