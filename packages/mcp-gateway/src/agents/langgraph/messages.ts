import { bareType, isTextType, textFrom } from '../../files/media-types.ts'
import type { InputFile } from '../../files/result-files.ts'
import { messageFieldOf, type AgentInput, type JsonSchema } from '../agent.ts'

/** Largest file that a message contains. The message names larger files and their URIs. */
const MAX_INLINE_BYTES = 5 * 1024 * 1024

/** Makes the input of a graph with messages. */
export async function messageStateOf(
  input: AgentInput,
  signal: AbortSignal,
): Promise<{ readonly messages: readonly unknown[] }> {
  const text = input.kind === 'message' ? input.text : JSON.stringify(input.value)
  if (input.files.length === 0) return { messages: [{ role: 'user', content: text }] }
  const blocks = await Promise.all(input.files.map((file) => blockOf(file, signal)))
  return { messages: [{ role: 'user', content: [{ type: 'text', text }, ...blocks] }] }
}

/**
 * Makes the input of a graph with a schema. A message becomes the property for text, if there is one.
 *
 * @returns `undefined` if there is none
 */
export function argumentStateOf(
  input: AgentInput,
  schema: JsonSchema | undefined,
): Readonly<Record<string, unknown>> | undefined {
  if (input.kind === 'arguments') return input.value
  const field = schema && messageFieldOf(schema)
  return field === undefined ? undefined : { [field]: input.text }
}

async function blockOf(file: InputFile, signal: AbortSignal): Promise<object> {
  const { uri, name, mimeType, size } = file
  const kind = blockTypeFor(mimeType)
  const named = { type: 'text', text: `File "${name}" (${mimeType}, ${size} bytes): ${uri}` }
  if (kind === undefined || size > MAX_INLINE_BYTES) return named
  const chunks: Uint8Array[] = []
  for await (const chunk of file.read(signal)) chunks.push(chunk)
  const bytes = Buffer.concat(chunks)
  if (kind !== 'text') {
    return { type: kind, mimeType, data: bytes.toString('base64'), metadata: { filename: name } }
  }
  const text = textFrom(bytes)
  return text === undefined ? named : { type: 'text', text: `File "${name}":\n${text}` }
}

/** Returns the type of the block for a file. `undefined` if models cannot read such a file. */
function blockTypeFor(mimeType: string): 'text' | 'image' | 'audio' | 'file' | undefined {
  if (isTextType(mimeType)) return 'text'
  const type = bareType(mimeType)
  if (type.startsWith('image/')) return 'image'
  if (type.startsWith('audio/')) return 'audio'
  return type === 'application/pdf' ? 'file' : undefined
}
