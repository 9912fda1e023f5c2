import type { CallToolResult } from '@modelcontextprotocol/server'
import { isCallToolResult } from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { Question } from '../../agents/agent-update.ts'
import type { EarlierFiles } from '../../files/result-files.ts'
import { isRunId } from '../run-id.ts'
import type { Answers } from './answers.ts'

/** A run that asked, as it is kept: whichever process gets the answer can go on with it. */
export interface WaitingRun {
  /** `waiting` for a person; `running` since it was answered; `ended`. */
  readonly phase: 'waiting' | 'running' | 'ended'
  readonly runId: string
  readonly agentId: string
  readonly skillId: string
  readonly tool: string
  readonly principal: string
  readonly args: string
  /** Who has no sealed state names the run with this: it stands in the question, and nowhere else. */
  readonly key: string
  /** The question that is open, or the last one. From 1. */
  readonly round: number
  readonly questions: readonly Question[]
  /** Of this round, by the id of the question: those that were good, when others were not. @default none */
  readonly answers?: Answers | undefined
  /** Of the agent. */
  readonly state: unknown
  /** Nothing is there to go on with: the run begins anew when it is answered. @default false */
  readonly beginsAnew?: boolean | undefined
  /** That were made so far. @default none */
  readonly files?: EarlierFiles | undefined
  /** Number of the last piece of progress. */
  readonly progress: number
  /** The answer that was taken last: a repeat of it executes nothing. */
  readonly answered?: { readonly round: number; readonly hash: string } | undefined
  /** After `ended`. */
  readonly result?: CallToolResult | undefined
  /** Milliseconds since 1970: then it waits, or runs, no more. */
  readonly expiresAt: number
}

/** @returns `undefined` for what is no such row */
export function waitingRunFrom(value: unknown): WaitingRun | undefined {
  return isWaitingRun(value) ? value : undefined
}

function isWaitingRun(value: unknown): value is WaitingRun {
  if (!isRecord(value)) return false
  const { phase, runId, round, questions, files, progress, answered, result, expiresAt } = value
  const { answers, beginsAnew } = value
  return (
    (phase === 'waiting' || phase === 'running' || phase === 'ended') &&
    isRunId(runId) &&
    ['agentId', 'skillId', 'tool', 'principal', 'args', 'key'].every(
      (key) => typeof value[key] === 'string',
    ) &&
    typeof round === 'number' &&
    typeof progress === 'number' &&
    typeof expiresAt === 'number' &&
    (files === undefined || isEarlierFiles(files)) &&
    Array.isArray(questions) &&
    questions.every(isQuestion) &&
    (answers === undefined || (isRecord(answers) && Object.values(answers).every(isAnswer))) &&
    (answered === undefined || isRecord(answered)) &&
    (beginsAnew === undefined || typeof beginsAnew === 'boolean') &&
    (result === undefined || isCallToolResult(result))
  )
}

function isAnswer(value: unknown): boolean {
  if (!isRecord(value)) return false
  const { action, content } = value
  return action === 'decline' || action === 'cancel' || (action === 'accept' && isRecord(content))
}

function isEarlierFiles(value: unknown): value is EarlierFiles {
  if (!isRecord(value)) return false
  const { blocks: content, shown, scope } = value
  const isScope = scope === undefined || typeof scope === 'string'
  return isScope && Array.isArray(shown) && isCallToolResult({ content })
}

function isQuestion(value: unknown): value is Question {
  if (!isRecord(value)) return false
  const { id, message, url } = value
  const isUrl = url === undefined || typeof url === 'string'
  return typeof id === 'string' && typeof message === 'string' && isUrl
}
