import type { Part } from '@a2a-js/sdk'

import type { OutputFile } from '../../runs/agent-call.ts'

/** All text of some parts, one after the other. */
export function textOf(parts: readonly Part[]): string {
  return parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('')
}

/**
 * The files among some parts. Raw parts that follow each other under one name and type are pieces of one file: that
 * is how a chunked artifact arrives. Data becomes a JSON file.
 */
export function filesOf(parts: readonly Part[], fallbackName: string): readonly OutputFile[] {
  const files: (OutputFile & { readonly raw?: Buffer })[] = []
  for (const { content, filename, mediaType } of parts) {
    const name = filename || fallbackName
    const mimeType = mediaType || undefined
    const last = files.at(-1)
    if (content?.$case === 'url') files.push({ name, mimeType, data: { url: content.value } })
    else if (content?.$case === 'data') {
      const data = Buffer.from(JSON.stringify(content.value) ?? 'null')
      files.push({ name, mimeType: mimeType ?? 'application/json', data })
    } else if (content?.$case === 'raw') {
      const isMore = last?.raw && last.name === name && last.mimeType === mimeType
      const raw = isMore ? Buffer.concat([last.raw, content.value]) : content.value
      if (isMore) files.pop()
      files.push({ name, mimeType, raw, data: raw })
    }
  }
  return files.map(({ name, mimeType, data }) => ({ name, mimeType, data }))
}
