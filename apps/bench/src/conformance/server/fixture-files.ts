import type { OutputFile } from '@x/mcp-gateway'

/** One red pixel. */
export const pixel: OutputFile = file(
  'pixel.png',
  'image/png',
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==',
)

/** The header of a sound that has no samples. */
export const silence: OutputFile = file(
  'silence.wav',
  'audio/wav',
  'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=',
)

export const note: OutputFile = {
  name: 'note.txt',
  mimeType: 'text/plain',
  data: Buffer.from('This is an embedded resource content.'),
}

export const json: OutputFile = {
  name: 'data.json',
  mimeType: 'application/json',
  data: Buffer.from(JSON.stringify({ test: 'data', value: 123 })),
}

function file(name: string, mimeType: string, base64: string): OutputFile {
  return { name, mimeType, data: Buffer.from(base64, 'base64') }
}
