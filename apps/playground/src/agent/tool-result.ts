import type { ToolMessage } from '@langchain/core/messages'
import { ContentBlockSchema } from '@modelcontextprotocol/sdk/types.js'
import type { ContentBlock } from '@modelcontextprotocol/sdk/types.js'
import { isRecord } from '@x/internal'
import type { ToolResult } from '../timeline/events.ts'

const MAX_TEXT_CHARACTERS = 20_000
const MAX_DATA_BYTES = 1_048_576
const MAX_BLOCKS = 100

/** Returns the result of a tool as the server sent it, small enough for the page. */
export function toToolResult({ content, artifact, status }: ToolMessage): ToolResult {
  const sent = partOf(artifact, 'mcp_content')
  const blocks = Array.isArray(sent) ? sent : [{ type: 'text', text: textOf(content) }]
  const shown = blocks.slice(0, MAX_BLOCKS).map(toShownBlock)
  const left = blocks.length - shown.length
  if (left > 0) shown.push(text(`${left} more blocks are not shown.`))
  const structured = partOf(artifact, 'mcp_structured_content')
  const characters = structured === undefined ? 0 : JSON.stringify(structured).length
  if (characters <= MAX_TEXT_CHARACTERS) {
    return { isError: status === 'error', content: shown, structuredContent: structured }
  }
  shown.push(text(`Structured content of ${characters} characters is not shown.`))
  return { isError: status === 'error', content: shown }
}

/** Data of one part of the artifact that MCP tools return. */
function partOf(artifact: unknown, type: string): unknown {
  if (!Array.isArray(artifact)) return undefined
  const part: unknown = artifact.find((entry) => isRecord(entry) && entry['type'] === type)
  return isRecord(part) ? part['data'] : undefined
}

function textOf(content: ToolMessage['content']): string {
  return typeof content === 'string' ? content : JSON.stringify(content)
}

function toShownBlock(value: unknown): ContentBlock {
  const { data: block } = ContentBlockSchema.safeParse(value)
  switch (block?.type) {
    case 'text':
      return { ...block, text: cut(block.text) }
    case 'image':
    case 'audio':
      return isLarge(block.data) ? notShown(block.type, block.data) : block
    case 'resource':
      if ('blob' in block.resource) {
        const { blob } = block.resource
        return isLarge(blob) ? notShown('resource', blob) : block
      }
      return { ...block, resource: { ...block.resource, text: cut(block.resource.text) } }
    case 'resource_link':
      return block
    case undefined:
      return text(cut(JSON.stringify(value) ?? ''))
  }
}

function cut(long: string): string {
  if (long.length <= MAX_TEXT_CHARACTERS) return long
  const start = long.slice(0, MAX_TEXT_CHARACTERS)
  return `${start}\n… ${long.length - MAX_TEXT_CHARACTERS} more characters are not shown.`
}

/** `data` is base64. */
function isLarge(data: string): boolean {
  return bytesOf(data) > MAX_DATA_BYTES
}

function bytesOf(data: string): number {
  return Math.floor(data.length * 0.75)
}

function notShown(type: string, data: string): ContentBlock {
  const mebibytes = (bytesOf(data) / 1_048_576).toFixed(1)
  return text(`The ${type} has ${mebibytes} MiB and is not shown.`)
}

function text(value: string): ContentBlock {
  return { type: 'text', text: value }
}
