import type { ContentBlock } from '@langchain/core/messages'
import { textBlock, UNKNOWN_TYPE } from './content-block.ts'

/** Providers refuse a message that is too large, and with it the whole conversation. */
export function withoutLargeMedia(blocks: readonly ContentBlock[], limit: number): ContentBlock[] {
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
export function cutTexts(blocks: readonly ContentBlock[], limit: number): ContentBlock[] {
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
