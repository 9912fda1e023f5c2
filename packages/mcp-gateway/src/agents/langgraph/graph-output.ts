import { isRecord } from '@x/internal'
import type { OutputFile } from '../../files/result-files.ts'
import type { GraphOutput } from './graph-definition.ts'
import { filesOf } from './message-files.ts'

/** What a caller gets of a final state, if its author does not say it. */
export function outputOf(state: unknown): Exclude<GraphOutput, string> {
  if (!isRecord(state)) return { text: typeof state === 'string' ? state : undefined }
  const { messages, structuredResponse } = state
  const structured = isRecord(structuredResponse) ? structuredResponse : undefined
  if (!Array.isArray(messages)) return { text: '', structured: structured ?? plainFrom(state) }
  const last = messages.findLast(isModelMessage)
  if (last === undefined) return { structured }
  return { text: textOfMessage(last), structured, files: filesOfMessage(last) }
}

/** What we need of a message of LangChain, whichever copy of it made it. */
interface ModelMessage {
  readonly content: unknown
}

export function isModelMessage(value: unknown): value is ModelMessage {
  if (!isRecord(value) || !('content' in value)) return false
  const { getType } = value
  if (typeof getType === 'function') return getType.call(value) === 'ai'
  const { type } = value
  return type === 'ai' || type === 'AIMessageChunk' || value['role'] === 'assistant'
}

export function textOfMessage({ content }: ModelMessage): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((block: unknown) => {
      if (typeof block === 'string') return block
      const isText = isRecord(block) && block['type'] === 'text'
      return isText && typeof block['text'] === 'string' ? block['text'] : ''
    })
    .join('')
}

function filesOfMessage(message: ModelMessage): readonly OutputFile[] {
  return filesOf(message.content)
}

/** A state as JSON; `undefined` if it cannot be. */
function plainFrom(state: object): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(JSON.stringify(state))
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}
