import type { Part, TaskStatus } from '@a2a-js/sdk'

import { isRecord } from '@x/internal'
import type { FinalUpdate } from '../agent-update.ts'
import { textOf } from './part-content.ts'

/** Which task goes on, once it is answered. */
export interface TaskState {
  readonly taskId: string
  readonly contextId: string
  /** Of what the agent said when it stopped: whoever hears that again has heard nothing new. */
  readonly messageId?: string | undefined
}

type Parts = readonly Part[]

/** States of A2A 1.0, by number: its package is loaded when an agent is called, not before. */
const COMPLETED = 3
const FAILED = 4
const CANCELED = 5
const INPUT_REQUIRED = 6
const REJECTED = 7
const AUTH_REQUIRED = 8

/** How a task ends, or that it waits. `undefined`: it works, also in states that nobody knows yet. */
export function taskEndOf(
  status: TaskStatus | undefined,
  task: TaskState,
): FinalUpdate | undefined {
  const parts = status?.message?.parts ?? []
  const text = textOf(parts)
  const state: number = status?.state ?? 0
  switch (state) {
    case COMPLETED:
      return { type: 'done' }
    case FAILED:
      return { type: 'failed', reason: text || 'It failed, and did not say why.' }
    case REJECTED:
      return { type: 'failed', reason: text || 'It refused, and did not say why.' }
    case CANCELED:
      return { type: 'failed', reason: text || 'It was cancelled.', isCancelled: true }
    case INPUT_REQUIRED: {
      const message = text || 'The agent needs an answer.'
      return { type: 'asked', questions: [{ id: 'input', message }], state: stateOf(status, task) }
    }
    case AUTH_REQUIRED: {
      const url = webUrlOf(parts)
      const reason = text || undefined
      return { type: 'authorization', url, reason, state: stateOf(status, task) }
    }
    default:
      return parts.some(isSignInPart) ? signIn(parts) : undefined
  }
}

/**
 * Agents of Solace Agent Mesh say in data that somebody has to sign in, while they go on working, and expect to be
 * asked again then: there is no state in which the task waits.
 */
function signIn(parts: Parts): FinalUpdate {
  return { type: 'authorization', url: webUrlOf(parts), reason: textOf(parts) || undefined }
}

function isSignInPart({ content }: Part): boolean {
  if (content?.$case !== 'data' || !isRecord(content.value)) return false
  return content.value['type'] === 'authentication_required'
}

/** Whether a task could not be cancelled because it had ended: as the SDK names it, whichever way it was told. */
export function isOver(error: unknown): boolean {
  return error instanceof Error && error.name.includes('TaskNotCancelable')
}

/** The state as it came back from an `asked` update; `undefined` for anything else. */
export function taskStateFrom(value: unknown): TaskState | undefined {
  if (!isRecord(value)) return undefined
  const { taskId, contextId, messageId } = value
  if (typeof taskId !== 'string' || typeof contextId !== 'string') return undefined
  return { taskId, contextId, ...(typeof messageId === 'string' && { messageId }) }
}

function stateOf(status: TaskStatus | undefined, { taskId, contextId }: TaskState): TaskState {
  const messageId = status?.message?.messageId
  return { taskId, contextId, ...(messageId !== undefined && { messageId }) }
}

/** As agents call it; no specification says so. */
const URL_KEYS = ['url', 'auth_uri', 'auth_url', 'authorization_url'] as const

/** Of a URL part, of data that holds one, or of the text: in this order. */
function webUrlOf(parts: Parts): string | undefined {
  for (const { content } of parts) {
    const value: unknown = content?.value
    if (content?.$case === 'url' && isWebUrl(value)) return value
    if (content?.$case !== 'data' || !isRecord(value)) continue
    const found = URL_KEYS.map((key) => value[key]).find(isWebUrl)
    if (found !== undefined) return found
  }
  return textOf(parts)
    .match(/https?:\/\/[^\s<>"')\]]+/g)
    ?.find(isWebUrl)
}

function isWebUrl(value: unknown): value is string {
  return typeof value === 'string' && /^https?:/i.test(value) && URL.canParse(value)
}
