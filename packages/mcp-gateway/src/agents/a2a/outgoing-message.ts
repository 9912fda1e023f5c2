import { randomUUID } from 'node:crypto'

import type { Message, Part, Role } from '@a2a-js/sdk'

import type { AgentCall, Resume } from '../agent-call.ts'
import type { InputFile } from '../../files/result-files.ts'
import type { TaskState } from './task-end.ts'

/** Files up to this size are sent; of larger ones only what and where they are. */
const MAX_FILE_BYTES = 5 * 1024 * 1024

/** What an agent is sent: what the caller said, or the answer to what the agent asked. */
export async function messageFrom(
  call: AgentCall,
  task: TaskState | undefined,
  role: Role,
): Promise<Message> {
  const parts = call.resume === undefined ? await partsOf(call) : answerParts(call.resume)
  return {
    messageId: randomUUID(),
    // A conversation of ours is a context of theirs; without one, the agent makes it.
    contextId: task?.contextId ?? call.thread ?? '',
    taskId: task?.taskId ?? '',
    role,
    parts: [...parts],
    metadata: { skillId: call.skillId, runId: call.runId },
    extensions: [],
    referenceTaskIds: [],
  }
}

async function partsOf({ input, signal }: AgentCall): Promise<readonly Part[]> {
  const words =
    input.kind === 'message'
      ? partFrom({ $case: 'text', value: input.text })
      : partFrom({ $case: 'data', value: input.value }, 'application/json')
  const files = await Promise.all(input.files.map((file) => filePart(file, signal)))
  return [words, ...files]
}

/** A form with one field `answer` is text to an agent that asked in words. */
function answerParts({ answers }: Resume): readonly Part[] {
  return Object.values(answers).map((answer) => {
    if (answer.action !== 'accept') {
      return partFrom({ $case: 'data', value: { action: answer.action } }, 'application/json')
    }
    const { answer: text, ...others } = answer.content
    if (typeof text === 'string' && Object.keys(others).length === 0) {
      return partFrom({ $case: 'text', value: text })
    }
    if (Object.keys(answer.content).length === 0) return partFrom({ $case: 'text', value: 'Done.' })
    return partFrom({ $case: 'data', value: answer.content }, 'application/json')
  })
}

async function filePart(file: InputFile, signal: AbortSignal): Promise<Part> {
  const { uri, name, mimeType, size } = file
  if (size > MAX_FILE_BYTES) {
    const value = `File "${name}" (${mimeType}, ${size} bytes): ${uri}`
    return partFrom({ $case: 'text', value })
  }
  const chunks: Uint8Array[] = []
  for await (const chunk of file.read(signal)) chunks.push(chunk)
  return { ...partFrom({ $case: 'raw', value: Buffer.concat(chunks) }, mimeType), filename: name }
}

function partFrom(content: NonNullable<Part['content']>, mediaType = 'text/plain'): Part {
  return { content, mediaType, filename: '', metadata: undefined }
}
