import type { ToolMessage } from '@langchain/core/messages'
import { ContentBlockSchema } from '@modelcontextprotocol/sdk/types.js'
import type { ContentBlock } from '@modelcontextprotocol/sdk/types.js'
import { isRecord } from '@x/internal'
import type { ToolResult } from '../timeline/events.ts'

const MAX_TEXT_CHARACTERS = 20_000
const MAX_BLOCKS = 100
const MEBIBYTE = 1_048_576

/** Returns the result of a tool as the server sent it, small enough for the page. */
export function toToolResult({ text, artifact, status }: ToolMessage): ToolResult {
  const sent = partOf(artifact, 'mcp_content')
  const blocks = Array.isArray(sent) ? sent : [textBlock(text)]
  const content = blocks.slice(0, MAX_BLOCKS).map(toShownBlock)
  const left = blocks.length - content.length
  if (left > 0) content.push(textBlock(`${left} more blocks are not shown.`))
  const isError = status === 'error'
  const structuredContent = partOf(artifact, 'mcp_structured_content')
  const { length } = JSON.stringify(structuredContent ?? null)
  if (length <= MAX_TEXT_CHARACTERS) return { isError, content, structuredContent }
  content.push(textBlock(`Structured content of ${length} characters is not shown.`))
  return { isError, content }
}

/** Data of one part of the artifact that MCP tools return. */
function partOf(artifact: unknown, type: string): unknown {
  if (!Array.isArray(artifact)) return undefined
  const part: unknown = artifact.find((entry) => isRecord(entry) && entry['type'] === type)
  return isRecord(part) ? part['data'] : undefined
}

/** Texts are cut. A block with data, such as an image, is whole or replaced by a text. */
function toShownBlock(value: unknown): ContentBlock {
  const { data: block } = ContentBlockSchema.safeParse(value)
  if (block?.type === 'text') return { ...block, text: cut(block.text) }
  const json = JSON.stringify(value)
  if (block === undefined) return textBlock(cut(json))
  if (json.length <= MEBIBYTE) return block
  const size = (json.length / MEBIBYTE).toFixed(1)
  return textBlock(`A block of type ${block.type} has ${size} MiB of JSON and is not shown.`)
}

function cut(long: string): string {
  if (long.length <= MAX_TEXT_CHARACTERS) return long
  const left = long.length - MAX_TEXT_CHARACTERS
  return `${long.slice(0, MAX_TEXT_CHARACTERS)}\n… ${left} more characters are not shown.`
}

function textBlock(text: string): ContentBlock {
  return { type: 'text', text }
}
