import type { Part } from '@a2a-js/sdk'

import { isRecord } from '@x/internal'
import type { OutputFile } from '../../files/result-files.ts'

/** All text of some parts, one after the other. */
export function textOf(parts: readonly Part[]): string {
  return parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('')
}

/** What data says of how far an agent is: the progress of agents of Solace Agent Mesh. */
export function progressOf(parts: readonly Part[]): string {
  const lines = parts.map(({ content }) => {
    if (content?.$case !== 'data' || !isRecord(content.value)) return ''
    const { type, status_text: line } = content.value
    return type === 'agent_progress_update' && typeof line === 'string' ? line : ''
  })
  return lines.filter((line) => line !== '').join('\n')
}

/** How much there is to keep of some parts. */
export function bytesOf(parts: readonly Part[]): number {
  let bytes = 0
  for (const { content } of parts) {
    if (content?.$case === 'raw') bytes += content.value.byteLength
    else if (content?.$case === 'data') bytes += JSON.stringify(content.value)?.length ?? 0
    else if (content !== undefined) bytes += content.value.length
  }
  return bytes
}

interface FoundFile {
  readonly name: string
  readonly mimeType: string | undefined
  readonly data: Buffer[] | { readonly url: string }
  readonly isRaw: boolean
}

/**
 * The files among some parts. Raw parts that follow each other under one name and type are pieces of one file: that
 * is how a chunked artifact arrives. Data becomes a JSON file.
 */
export function filesOf(parts: readonly Part[], fallbackName: string): readonly OutputFile[] {
  const files: FoundFile[] = []
  for (const { content, filename, mediaType } of parts) {
    const name = filename || fallbackName
    const mimeType = mediaType || undefined
    const last = files.at(-1)
    if (content?.$case === 'url') {
      files.push({ name, mimeType, data: { url: content.value }, isRaw: false })
    } else if (content?.$case === 'data') {
      const data = [Buffer.from(JSON.stringify(content.value) ?? 'null')]
      files.push({ name, mimeType: mimeType ?? 'application/json', data, isRaw: false })
    } else if (content?.$case === 'raw') {
      const isMore = last?.isRaw && last.name === name && last.mimeType === mimeType
      if (isMore && Array.isArray(last.data)) last.data.push(content.value)
      else files.push({ name, mimeType, data: [content.value], isRaw: true })
    }
  }
  return files.map(({ name, mimeType, data }) => {
    return { name, mimeType, data: Array.isArray(data) ? Buffer.concat(data) : data }
  })
}
