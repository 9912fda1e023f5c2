import type { Message, StreamResponse, Task, TaskStatus } from '@a2a-js/sdk'

import type { AgentUpdate, FinalUpdate } from '../agent-update.ts'
import { filesOf, progressOf, textOf } from './part-content.ts'
import { TaskArtifacts } from './task-artifacts.ts'
import { taskEndOf, type TaskState } from './task-end.ts'

export interface TaskReaderOptions {
  /** The task that goes on, where one does. */
  readonly task?: TaskState | undefined
  /** Of all artifacts. */
  readonly maxBytes?: number | undefined
}

/**
 * Reads what an agent says of one task, in whichever way it comes: events of a stream, or snapshots. Each thing is
 * told once; `end` is set when the task has ended or waits.
 */
export class TaskReader {
  readonly #artifacts: TaskArtifacts
  /** What was said when a task stopped that now goes on. */
  readonly #stoppedAt: string | undefined
  /** Ids of the messages that were read. */
  readonly #read = new Set<string>()
  #task: TaskState | undefined
  #end: FinalUpdate | undefined
  #isStillWaiting = false
  /** All text that was told. */
  #told = ''
  /** What it said at its end. */
  #lastWords = ''
  /** What it said while it worked. */
  #notes = ''

  constructor({ task, maxBytes }: TaskReaderOptions = {}) {
    this.#artifacts = new TaskArtifacts(maxBytes)
    this.#task = task
    this.#stoppedAt = task?.messageId
  }

  get task(): TaskState | undefined {
    return this.#task
  }

  /** How it ended, or what it waits for: to be told after `finish()`. */
  get end(): FinalUpdate | undefined {
    return this.#end
  }

  /** Whether the task still waits for what it waited for when it was left. */
  get isStillWaiting(): boolean {
    return this.#isStillWaiting
  }

  /** Which task it is, without telling anything of it. */
  note({ payload }: StreamResponse): void {
    if (payload?.$case === 'task') {
      this.#name({ taskId: payload.value.id, contextId: payload.value.contextId })
    } else if (payload?.$case === 'statusUpdate' || payload?.$case === 'artifactUpdate') {
      this.#name(payload.value)
    }
  }

  /** Events may have been missed. */
  noteGap(): void {
    this.#artifacts.noteGap()
  }

  /** @throws GatewayError `LIMIT` */
  *take({ payload }: StreamResponse): Generator<AgentUpdate> {
    for (const update of this.#updates(payload)) {
      if (update.type === 'text') this.#told += update.text
      yield update
    }
  }

  *#updates(payload: StreamResponse['payload']): Generator<AgentUpdate> {
    switch (payload?.$case) {
      case 'message':
        yield* this.#message(payload.value)
        break
      case 'task':
        yield* this.#snapshot(payload.value)
        break
      case 'artifactUpdate': {
        const { artifact, append, lastChunk } = payload.value
        this.#name(payload.value)
        if (artifact) yield* this.#artifacts.take(artifact, { append, lastChunk })
        break
      }
      case 'statusUpdate':
        this.#name(payload.value)
        yield* this.#status(payload.value.status)
        break
      case undefined:
        break
    }
  }

  /** What is left to tell, and the end. Call it once, when there is one. */
  *finish(): Generator<AgentUpdate> {
    if (this.#end === undefined) return
    yield* this.#artifacts.finish()
    if (this.#end.type !== 'done') {
      yield this.#end
      return
    }
    const whole = wholeText(this.#artifacts.text, this.#lastWords) || this.#notes
    const isContinued = whole.startsWith(this.#told)
    if (isContinued && whole !== this.#told) {
      yield { type: 'text', text: whole.slice(this.#told.length) }
    }
    yield isContinued ? { type: 'done' } : { type: 'done', text: whole }
  }

  *#snapshot({ id, contextId, artifacts, status }: Task): Generator<AgentUpdate> {
    this.#name({ taskId: id, contextId })
    yield* this.#artifacts.reconcile(artifacts)
    yield* this.#status(status)
  }

  /** Without a task it is the whole answer (A2A 1.0, "Message or Task"). */
  *#message(message: Message): Generator<AgentUpdate> {
    yield* this.#filesIn(message)
    this.#lastWords += textOf(message.parts)
    if (this.#task === undefined) this.#end = { type: 'done' }
  }

  *#status(status: TaskStatus | undefined): Generator<AgentUpdate> {
    const { message } = status ?? {}
    const end = taskEndOf(status, this.#task ?? NO_TASK)
    const isWaiting = end?.type === 'asked' || end?.type === 'authorization'
    this.#isStillWaiting = Boolean(this.#stoppedAt) && message?.messageId === this.#stoppedAt
    if (isWaiting && this.#isStillWaiting) return
    this.#end = end
    if (message === undefined) return
    const text = textOf(message.parts)
    const isNew = !this.#read.has(message.messageId || text)
    // Data is part of an answer; on the way it tells what the agent does, and where to sign in is no file.
    const isOnTheWay = end === undefined || end.type === 'authorization'
    yield* this.#filesIn(isOnTheWay ? withoutData(message) : message)
    if (end?.type === 'done') this.#lastWords = text
    else if (end === undefined && isNew) yield* this.#note(message, text)
  }

  *#note({ messageId, parts }: Message, text: string): Generator<AgentUpdate> {
    if (messageId === '' && text !== '') this.#read.add(text)
    if (this.#notes.length < MAX_NOTE_CHARS) this.#notes += text
    const line = text || progressOf(parts)
    if (line !== '') yield { type: 'status', text: line }
  }

  *#filesIn({ messageId, parts }: Message): Generator<AgentUpdate> {
    if (this.#read.has(messageId)) return
    if (messageId !== '') this.#read.add(messageId)
    for (const file of filesOf(parts, 'file')) yield { type: 'file', file }
  }

  #name({ taskId, contextId }: TaskState): void {
    if (taskId !== '') this.#task ??= { taskId, contextId }
  }
}

/** Of what an agent says on its way; it is an answer only where there is no other. */
const MAX_NOTE_CHARS = 1_048_576

function withoutData(message: Message): Message {
  return { ...message, parts: message.parts.filter(({ content }) => content?.$case !== 'data') }
}

const NO_TASK: TaskState = { taskId: '', contextId: '' }

/** Agents say at the end again what they wrote before, or all of it only then. */
function wholeText(written: string, lastWords: string): string {
  const last = lastWords.trim()
  const before = written.trim()
  if (last === '' || before.includes(last)) return written
  return last.includes(before) ? lastWords : `${written}\n\n${lastWords}`
}
