import { bareType, isTextType, textFrom } from '../../files/media-types.ts'
import type { AgentInput } from '../agent-call.ts'
import type { InputFile } from '../../files/result-files.ts'
import { type JsonSchema, messageFieldOf } from '../agent.ts'

/** Files up to this size are put before the model; larger ones it has to fetch by their handles. */
const MAX_INLINE_BYTES = 5 * 1024 * 1024

/** A user message for a graph that talks. */
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
 * Arguments for a graph with a schema. A message goes where there is one place for it.
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
  const kind = shownAs(mimeType)
  const told = { type: 'text', text: `File "${name}" (${mimeType}, ${size} bytes): ${uri}` }
  if (kind === undefined || size > MAX_INLINE_BYTES) return told
  const bytes = await bytesOf(file, signal)
  if (kind !== 'text') {
    return { type: kind, mimeType, data: bytes.toString('base64'), metadata: { filename: name } }
  }
  const text = textFrom(bytes)
  return text === undefined ? told : { type: 'text', text: `File "${name}":\n${text}` }
}

/** As which block of a message; `undefined`: no model knows what to do with it. */
function shownAs(mimeType: string): 'text' | 'image' | 'audio' | 'file' | undefined {
  if (isTextType(mimeType)) return 'text'
  const type = bareType(mimeType)
  if (type.startsWith('image/')) return 'image'
  if (type.startsWith('audio/')) return 'audio'
  return type === 'application/pdf' ? 'file' : undefined
}

async function bytesOf(file: InputFile, signal: AbortSignal): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of file.read(signal)) chunks.push(chunk)
  return Buffer.concat(chunks)
}
