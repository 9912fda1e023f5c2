import type { ContentBlock } from '@langchain/core/messages'
import { isRecord } from '@x/internal'
import { isUiUri, type ToolUi } from '../mcp-apps.ts'
import type { ToolResult } from '../tool-source.ts'
import type { SchemaProjection } from './schema-projection.ts'
import { mediaForModel, mediaTypeOf } from './model-media.ts'
import { startOf } from './well-formed.ts'

/** About 25,000 tokens, which fit into a conversation. */
const MAX_TEXT_CHARACTERS = 100_000

const MAX_MEDIA_BYTES = 10 * 1024 * 1024

/**
 * The artifact for the application, in this order, without empty entries. Names and shapes are those of
 * LangChain's own MCP adapters, so that graphs can change between both.
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
      readonly type: 'mcp_ui'
      /** `_meta.ui` of the tool, and where a host finds it. Only if the tool has a user interface. */
      readonly data: McpToolUi
    }
  | {
      readonly type: 'mcp_session'
      /** Only if the server lost the session of earlier calls, with the state that it kept there. */
      readonly data: { readonly replaced: true; readonly epoch: number; readonly reason: string }
    }

/** The user interface for results of a tool (MCP Apps). The host reads `resourceUri` from the server. */
export interface McpToolUi extends ToolUi {
  readonly resourceUri: string
  /** Name of the server in `servers` or in the agent definition, else its slug. */
  readonly server: string
  /** Name of the tool on the server. */
  readonly tool: string
}

export interface ToolOutput {
  /** For the model: a string if the result is exactly one text. */
  readonly content: string | ContentBlock[]
  /** For the application. */
  readonly artifact: McpArtifactEntry[]
}

export interface ToolOutputOptions {
  /**
   * Limit of all texts together. Longer texts are cut, with a note for the model; the artifact has the whole
   * text. `Infinity` for no limit. @default 100_000
   */
  readonly maxTextCharacters?: number | undefined
  /**
   * Limit of images, audio and files together, in bytes. Media beyond it are left out, with a note for the
   * model; the artifact has them. `Infinity` for no limit. @default 10_485_760
   */
  readonly maxMediaBytes?: number | undefined
}

/**
 * Maps the result of `tools/call` to LangChain content and artifact. The order is kept, links are not
 * fetched, media that the provider would refuse and user interfaces (`ui://`) become notes, and an unknown block is shown
 * as JSON. Texts alone become one text, which more providers take than a list. A result without content, or with blank
 * texts only, shows its structured content, else `''`.
 */
export function toolOutputFrom(
  result: ToolResult,
  options: ToolOutputOptions & {
    readonly schemaFor?: SchemaProjection | undefined
    /** User interface of the tool. */
    readonly ui?: McpToolUi | undefined
  } = {},
): ToolOutput {
  const {
    schemaFor = 'common',
    maxTextCharacters = MAX_TEXT_CHARACTERS,
    maxMediaBytes = MAX_MEDIA_BYTES,
    ui,
  } = options
  const raw = (result.content ?? []).map(withoutNulls)
  const artifact = artifactOf(result, raw, ui)
  const legible = raw
    .map((block) => mediaForModel(contentBlockFrom(block), schemaFor))
    .filter((block) => textIn(block)?.trim() !== '') // Anthropic refuses a blank text (nanobot#949)
  const shown =
    legible.length === 0 && hasStructure(result)
      ? [textBlock(JSON.stringify(result.structuredContent))]
      : legible
  const blocks = cutTexts(withoutLargeMedia(shown, maxMediaBytes), maxTextCharacters)
  // DeepSeek refuses a list of texts (n8n#14574), and LangChain's models for Ollama and Cerebras throw for it.
  const isText = blocks.every((block) => textIn(block) !== undefined)
  return { content: isText ? textOf(blocks) : blocks, artifact }
}

/** Appends a note about the result to the content. */
export function withNote(content: ToolOutput['content'], note: string): ToolOutput['content'] {
  if (typeof content !== 'string') return [...content, textBlock(note)]
  return content === '' ? note : `${content}\n${note}`
}

/** Returns all texts of the content, for messages that are text only. */
export function textOf(content: ToolOutput['content']): string {
  if (typeof content === 'string') return content
  return content
    .map(textIn)
    .filter((text) => text)
    .join('\n')
}

/** Returns undefined for a block that is not a text. */
function textIn({ type, text }: ContentBlock): string | undefined {
  return type === 'text' && typeof text === 'string' ? text : undefined
}

function artifactOf(
  result: ToolResult,
  raw: readonly unknown[],
  ui: McpToolUi | undefined,
): McpArtifactEntry[] {
  const entries: McpArtifactEntry[] = []
  if (hasStructure(result)) {
    entries.push({ type: 'mcp_structured_content', data: result.structuredContent })
  }
  const { _meta: meta = {} } = result
  if (Object.keys(meta).length > 0) entries.push({ type: 'mcp_meta', data: meta })
  if (raw.length > 0) entries.push({ type: 'mcp_content', data: raw })
  if (ui !== undefined) entries.push({ type: 'mcp_ui', data: ui })
  return entries
}

function hasStructure({ structuredContent }: ToolResult): boolean {
  return structuredContent !== undefined && structuredContent !== null
}

/** For media without a type. */
const UNKNOWN_TYPE = 'application/octet-stream'

/** Converts a block of a result or a prompt to LangChain's standard content block. */
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
  if (isUiUri(uri)) return uiNote(uri)
  const where = typeof uri === 'string' ? uri : 'without address'
  if (typeof text === 'string') return textBlock(`Resource ${where}:\n${text}`)
  if (typeof blob === 'string') {
    const mime = typeof mimeType === 'string' ? mimeType : UNKNOWN_TYPE
    return { type: mediaTypeOf(mime), data: blob, mimeType: mime, metadata: { uri: where } }
  }
  return textBlock(JSON.stringify({ type: 'resource', resource }))
}

function linkBlock(link: Readonly<Record<string, unknown>>): ContentBlock {
  const { uri, name, title, mimeType, description } = link
  if (isUiUri(uri)) return uiNote(uri)
  const label = [title, name].find((value) => typeof value === 'string') ?? 'unnamed'
  const type = typeof mimeType === 'string' ? ` (${mimeType})` : ''
  const about = typeof description === 'string' ? `: ${description}` : ''
  return textBlock(`Resource link "${label}" ${String(uri)}${type}${about}`)
}

/** A page of HTML is of no use to a model, and is meant for the application. */
function uiNote(uri: string): ContentBlock {
  return textBlock(`[Left out: user interface ${uri}, which is for the application.]`)
}

function textBlock(text: string): ContentBlock.Text {
  return { type: 'text', text: text.toWellFormed() }
}

/**
 * Removes the `null` fields that Python servers send for absent ones. Not inside `_meta` and data, where a
 * `null` has a meaning.
 */
function withoutNulls(block: unknown): unknown {
  if (!isRecord(block)) return block
  const values = Object.values(block)
  if (block['resource'] === undefined && !values.includes(null) && !values.includes(undefined)) {
    return block // nearly always
  }
  const fields = Object.entries(block).filter(([, field]) => field !== null && field !== undefined)
  return Object.fromEntries(
    fields.map(([key, field]) => [key, key === 'resource' ? withoutNulls(field) : field]),
  )
}

/**
 * Replaces media beyond the limit by a note, because providers refuse the whole conversation if a message is
 * too large.
 */
function withoutLargeMedia(blocks: readonly ContentBlock[], limit: number): ContentBlock[] {
  let left = limit
  return blocks.map((block) => {
    if (block.type === 'text' || typeof block['data'] !== 'string') return block
    const bytes = Math.floor((block['data'].length * 3) / 4)
    left -= bytes
    if (left >= 0) return block
    const mimeType = typeof block['mimeType'] === 'string' ? block['mimeType'] : UNKNOWN_TYPE
    return textBlock(
      `[Left out: ${block.type} (${mimeType}) of ${bytes} bytes, which is over the limit of this conversation.]`,
    )
  })
}

/** Cuts the texts at the limit of their sum. Other blocks stay as they are. */
function cutTexts(blocks: readonly ContentBlock[], limit: number): ContentBlock[] {
  const total = blocks.reduce((sum, block) => sum + (textIn(block)?.length ?? 0), 0)
  if (total <= limit) return [...blocks]
  let left = limit
  const kept: ContentBlock[] = []
  for (const block of blocks) {
    const text = textIn(block)
    if (text === undefined) kept.push(block)
    else if (left > 0) kept.push(textBlock(startOf(text, left)))
    left -= text?.length ?? 0
  }
  const note = `[Cut: this result has ${total} characters of text, the first ${limit} are shown. Ask for a smaller part if you need the rest.]`
  const lastText = kept.findLastIndex((block) => block.type === 'text')
  const last = kept[lastText]
  if (last === undefined || typeof last.text !== 'string') return [...kept, textBlock(note)]
  return kept.with(lastText, textBlock(`${last.text}\n${note}`))
}
