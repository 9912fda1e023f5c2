import { randomUUID } from 'node:crypto'

import { Role, TaskState as State, type Message, type Part, type TaskStatus } from '@a2a-js/sdk'
import { isRecord } from '@x/internal'
import type { AgentCall, FinalUpdate, InputFile, OutputFile, Resume } from '@x/mcp-gateway'

/** Larger files are not sent: the message names them and their URI. */
const MAX_FILE_BYTES = 5 * 1024 * 1024

/** Makes the message to the agent: the input of the caller, or the answers to questions of the agent. */
export async function toMessage(call: AgentCall, task: TaskState | undefined): Promise<Message> {
  const parts = call.resume === undefined ? await toInputParts(call) : toAnswerParts(call.resume)
  return {
    messageId: randomUUID(),
    // The conversation of the gateway is the context of the agent. Without one, the agent makes a context.
    contextId: task?.contextId ?? call.thread ?? '',
    taskId: task?.taskId ?? '',
    role: Role.ROLE_USER,
    parts: [...parts],
    metadata: { skillId: call.skillId, runId: call.runId },
    extensions: [],
    referenceTaskIds: [],
  }
}

async function toInputParts({ input, signal }: AgentCall): Promise<readonly Part[]> {
  const words =
    input.kind === 'message'
      ? toPart({ $case: 'text', value: input.text })
      : toPart({ $case: 'data', value: input.value }, 'application/json')
  const files = await Promise.all(input.files.map((file) => toFilePart(file, signal)))
  return [words, ...files]
}

/** A form with the single field `answer` is sent as text, because the agent asked in words. */
function toAnswerParts({ answers }: Resume): readonly Part[] {
  return Object.values(answers).map((answer) => {
    if (answer.action !== 'accept') {
      return toPart({ $case: 'data', value: { action: answer.action } }, 'application/json')
    }
    const { answer: text, ...others } = answer.content
    if (typeof text === 'string' && Object.keys(others).length === 0) {
      return toPart({ $case: 'text', value: text })
    }
    if (Object.keys(answer.content).length === 0) return toPart({ $case: 'text', value: 'Done.' })
    return toPart({ $case: 'data', value: answer.content }, 'application/json')
  })
}

async function toFilePart(file: InputFile, signal: AbortSignal): Promise<Part> {
  const { uri, name, mimeType, size } = file
  if (size > MAX_FILE_BYTES) {
    const value = `File "${name}" (${mimeType}, ${size} bytes): ${uri}`
    return toPart({ $case: 'text', value })
  }
  const chunks: Uint8Array[] = []
  for await (const chunk of file.read(signal)) chunks.push(chunk)
  return { ...toPart({ $case: 'raw', value: Buffer.concat(chunks) }, mimeType), filename: name }
}

function toPart(content: NonNullable<Part['content']>, mediaType = 'text/plain'): Part {
  return { content, mediaType, filename: '', metadata: undefined }
}

/** Joins the text of all parts. */
export function joinText(parts: readonly Part[]): string {
  return parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('')
}

/** Finds progress in data parts, as agents of Solace Agent Mesh send it. */
export function findProgress(parts: readonly Part[]): string {
  const lines = parts.map(({ content }) => {
    if (content?.$case !== 'data' || !isRecord(content.value)) return ''
    const { type, status_text: line } = content.value
    return type === 'agent_progress_update' && typeof line === 'string' ? line : ''
  })
  return lines.filter((line) => line !== '').join('\n')
}

/** Counts the bytes that the parts hold. */
export function countBytes(parts: readonly Part[]): number {
  let bytes = 0
  for (const { content } of parts) {
    if (content?.$case === 'raw') bytes += content.value.byteLength
    else if (content?.$case === 'data') bytes += JSON.stringify(content.value)?.length ?? 0
    else if (content !== undefined) bytes += content.value.length
  }
  return bytes
}

/**
 * Finds the files in parts. Adjacent raw parts with the same name and type are one file: a chunked artifact arrives like
 * that. Data becomes a JSON file.
 */
export function findFiles(parts: readonly Part[], fallbackName: string): readonly OutputFile[] {
  const files: (Omit<OutputFile, 'data'> & { data: Buffer[] | OutputFile['data'] })[] = []
  for (const { content, filename, mediaType } of parts) {
    const name = filename || fallbackName
    const mimeType = mediaType || undefined
    const last = files.at(-1)
    if (content?.$case === 'url') {
      files.push({ name, mimeType, data: { url: content.value } })
    } else if (content?.$case === 'data') {
      const data = Buffer.from(JSON.stringify(content.value) ?? 'null')
      files.push({ name, mimeType: mimeType ?? 'application/json', data })
    } else if (content?.$case === 'raw') {
      const isMore = last?.name === name && last.mimeType === mimeType
      if (isMore && Array.isArray(last.data)) last.data.push(content.value)
      else files.push({ name, mimeType, data: [content.value] })
    }
  }
  return files.map(({ name, mimeType, data }) => {
    return { name, mimeType, data: Array.isArray(data) ? Buffer.concat(data) : data }
  })
}

/** A task that waits for an answer. Stored with a paused run. */
export interface TaskState {
  readonly taskId: string
  readonly contextId: string
  /** Id of the message with which the task stopped. The same id again means that the task still waits. */
  readonly messageId?: string | undefined
}

/** Returns how a task ended, or what it waits for. `undefined` if it still works, also for unknown states. */
export function toFinalUpdate(
  status: TaskStatus | undefined,
  task: TaskState,
): FinalUpdate | undefined {
  const parts = status?.message?.parts ?? []
  const text = joinText(parts)
  switch (status?.state) {
    case State.TASK_STATE_COMPLETED:
      return { type: 'done' }
    case State.TASK_STATE_FAILED:
      return { type: 'failed', reason: text || 'The agent failed without a reason.' }
    case State.TASK_STATE_REJECTED:
      return { type: 'failed', reason: text || 'The agent refused the task without a reason.' }
    case State.TASK_STATE_CANCELED:
      return { type: 'failed', reason: text || 'The task was cancelled.', isCancelled: true }
    case State.TASK_STATE_INPUT_REQUIRED: {
      const message = text || 'The agent needs an answer.'
      return {
        type: 'asked',
        questions: [{ id: 'input', message }],
        state: toTaskState(status, task),
      }
    }
    case State.TASK_STATE_AUTH_REQUIRED:
      return { ...signIn(parts), state: toTaskState(status, task) }
    case undefined:
    case State.TASK_STATE_UNSPECIFIED:
    case State.TASK_STATE_SUBMITTED:
    case State.TASK_STATE_WORKING:
    case State.UNRECOGNIZED:
    default:
      return parts.some(isSignInPart) ? signIn(parts) : undefined
  }
}

/**
 * Agents of Solace Agent Mesh ask for a sign-in with a data part while the task is working. The task does not wait: the
 * caller signs in and calls again.
 */
function signIn(parts: readonly Part[]): Extract<FinalUpdate, { type: 'authorization' }> {
  return { type: 'authorization', url: findWebUrl(parts), reason: joinText(parts) || undefined }
}

function isSignInPart({ content }: Part): boolean {
  if (content?.$case !== 'data' || !isRecord(content.value)) return false
  return content.value['type'] === 'authentication_required'
}

/** Whether a task could not be cancelled because it had already ended. */
export function isOver(error: unknown): boolean {
  return error instanceof Error && error.name.includes('TaskNotCancelable')
}

/** Parses the state of an `asked` update. `undefined` if it is anything else. */
export function parseTaskState(value: unknown): TaskState | undefined {
  if (!isRecord(value)) return undefined
  const { taskId, contextId, messageId } = value
  if (typeof taskId !== 'string' || typeof contextId !== 'string') return undefined
  return { taskId, contextId, ...(typeof messageId === 'string' && { messageId }) }
}

function toTaskState(status: TaskStatus | undefined, { taskId, contextId }: TaskState): TaskState {
  const messageId = status?.message?.messageId
  return { taskId, contextId, ...(messageId !== undefined && { messageId }) }
}

/** Names that agents use for the URL of a sign-in. No specification defines them. */
const URL_KEYS = ['url', 'auth_uri', 'auth_url', 'authorization_url'] as const

/** Finds the first URL in a URL part or a data part, else in the text. */
function findWebUrl(parts: readonly Part[]): string | undefined {
  for (const { content } of parts) {
    const value: unknown = content?.value
    if (content?.$case === 'url' && isWebUrl(value)) return value
    if (content?.$case !== 'data' || !isRecord(value)) continue
    const found = URL_KEYS.map((key) => value[key]).find(isWebUrl)
    if (found !== undefined) return found
  }
  return joinText(parts)
    .match(/https?:\/\/[^\s<>"')\]]+/g)
    ?.find(isWebUrl)
}

function isWebUrl(value: unknown): value is string {
  return typeof value === 'string' && /^https?:/i.test(value) && URL.canParse(value)
}
