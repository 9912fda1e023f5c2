import type { Artifact, Message, Part, StreamResponse, Task, TaskStatus } from '@a2a-js/sdk'
import { GatewayError, type AgentUpdate, type FinalUpdate } from '@x/mcp-gateway'
import { countBytes, findFiles, findProgress, joinText, toFinalUpdate } from './messages.ts'
import type { TaskState } from './messages.ts'

/**
 * Reads the events of a stream and the snapshots of one task. Yields everything once. `end` is set when the task has
 * ended or waits.
 */
export class TaskReader {
  readonly artifacts: TaskArtifacts
  /** Id of the message with which the continued task had stopped. */
  readonly #stoppedAt: string | undefined
  /** Ids of messages that were read. Texts of messages without an id. */
  readonly #read = new Set<string>()
  /** The task that the message continues, else the one that the agent names first. */
  task: TaskState | undefined
  /** How the task ended, or what it waits for. `finish()` yields it. */
  end: FinalUpdate | undefined
  /** `true` for a task that has not accepted the answer to its last question. */
  isStillWaiting = false
  /** All text that was yielded. */
  #yielded = ''
  /** Text of the last message. */
  #lastWords = ''
  /** Text of messages while the task was working. */
  #notes = ''

  /** @param maxBytes limit for all artifacts together */
  constructor(task: TaskState | undefined, maxBytes: number) {
    this.artifacts = new TaskArtifacts(maxBytes)
    this.task = task
    this.#stoppedAt = task?.messageId
  }

  /** Notes the id of the task only. */
  note({ payload }: StreamResponse): void {
    if (payload?.$case === 'task') {
      this.#name({ taskId: payload.value.id, contextId: payload.value.contextId })
    } else if (payload?.$case === 'statusUpdate' || payload?.$case === 'artifactUpdate') {
      this.#name(payload.value)
    }
  }

  /** @throws GatewayError `LIMIT` */
  *take({ payload }: StreamResponse): Generator<AgentUpdate> {
    for (const update of this.#updates(payload)) {
      if (update.type === 'text') this.#yielded += update.text
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
        if (artifact) yield* this.artifacts.take(artifact, { append, lastChunk })
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

  /** Yields the rest and the end. Call it once, when `end` is set. */
  *finish(): Generator<AgentUpdate> {
    if (this.end === undefined) return
    yield* this.artifacts.finish()
    if (this.end.type !== 'done') {
      yield this.end
      return
    }
    const whole = wholeText(this.artifacts.text, this.#lastWords) || this.#notes
    const isContinued = whole.startsWith(this.#yielded)
    if (isContinued && whole !== this.#yielded) {
      yield { type: 'text', text: whole.slice(this.#yielded.length) }
    }
    yield isContinued ? { type: 'done' } : { type: 'done', text: whole }
  }

  *#snapshot({ id, contextId, artifacts, status }: Task): Generator<AgentUpdate> {
    this.#name({ taskId: id, contextId })
    yield* this.artifacts.reconcile(artifacts)
    yield* this.#status(status)
  }

  /** A message without a task is the whole answer (A2A 1.0, "Message or Task"). */
  *#message(message: Message): Generator<AgentUpdate> {
    yield* this.#filesIn(message)
    this.#lastWords += joinText(message.parts)
    if (this.task === undefined) this.end = { type: 'done' }
  }

  *#status(status: TaskStatus | undefined): Generator<AgentUpdate> {
    const { message } = status ?? {}
    const end = toFinalUpdate(status, this.task ?? NO_TASK)
    const isWaiting = end?.type === 'asked' || end?.type === 'authorization'
    this.isStillWaiting = Boolean(this.#stoppedAt) && message?.messageId === this.#stoppedAt
    if (isWaiting && this.isStillWaiting) return
    this.end = end
    if (message === undefined) return
    const text = joinText(message.parts)
    const isNew = !this.#read.has(message.messageId || text)
    // Data is a file in an answer only. Before, it is progress or names the URL of a sign-in.
    const isInterim = end === undefined || end.type === 'authorization'
    yield* this.#filesIn(isInterim ? withoutData(message) : message)
    if (end?.type === 'done') this.#lastWords = text
    else if (end === undefined && isNew) yield* this.#note(message, text)
  }

  *#note({ messageId, parts }: Message, text: string): Generator<AgentUpdate> {
    if (messageId === '' && text !== '') this.#read.add(text)
    if (this.#notes.length < MAX_NOTE_CHARS) this.#notes += text
    const line = text || findProgress(parts)
    if (line !== '') yield { type: 'status', text: line }
  }

  *#filesIn({ messageId, parts }: Message): Generator<AgentUpdate> {
    if (this.#read.has(messageId)) return
    if (messageId !== '') this.#read.add(messageId)
    for (const file of findFiles(parts, 'file')) yield { type: 'file', file }
  }

  #name({ taskId, contextId }: TaskState): void {
    if (taskId !== '') this.task ??= { taskId, contextId }
  }
}

/** Most characters to keep of messages of a working task. They are the answer if the task has no other text. */
const MAX_NOTE_CHARS = 1_048_576

function withoutData(message: Message): Message {
  return { ...message, parts: message.parts.filter(({ content }) => content?.$case !== 'data') }
}

const NO_TASK: TaskState = { taskId: '', contextId: '' }

/** Agents may repeat in the last message what they streamed, or send the whole text only there. */
function wholeText(written: string, lastWords: string): string {
  const last = lastWords.trim()
  const before = written.trim()
  if (last === '' || before.includes(last)) return written
  return last.includes(before) ? lastWords : `${written}\n\n${lastWords}`
}

interface JoinedArtifact {
  readonly name: string
  parts: Part[]
  bytes: number
  text: string
  areFilesYielded: boolean
}

/**
 * The artifacts of one task by their ids. Joins chunks, and yields nothing twice: the last snapshot repeats all that was
 * streamed. Yields text as it arrives, and files when they are complete.
 */
export class TaskArtifacts {
  readonly #artifacts = new Map<string, JoinedArtifact>()
  readonly #maxBytes: number
  #bytes = 0
  /** Artifact of the last text that was yielded. */
  #last: JoinedArtifact | undefined
  /** Chunks may have been missed. Then files are yielded at the end only. */
  isGapped = false

  /** @param maxBytes limit for all artifacts together */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Text of all artifacts, in the order in which they arrived, with an empty line between two of them. */
  get text(): string {
    const texts = [...this.#artifacts.values()]
      .map(({ text }) => text)
      .filter((text) => text !== '')
    return texts.reduce((before, text) => before + separatorAfter(before) + text, '')
  }

  /**
   * Takes a chunk, or a whole artifact, from a stream.
   *
   * @throws GatewayError `LIMIT`
   */
  *take(
    artifact: Artifact,
    { append, lastChunk }: { readonly append: boolean; readonly lastChunk: boolean },
  ): Generator<AgentUpdate> {
    const joined = this.#artifacts.get(artifact.artifactId) ?? this.#add(artifact)
    yield* append ? this.#append(joined, artifact.parts) : this.#replace(joined, artifact.parts)
    if (lastChunk && !this.isGapped) yield* yieldFiles(joined)
  }

  /**
   * Takes the artifacts of a snapshot. Yields only what is new.
   *
   * @throws GatewayError `LIMIT`
   */
  *reconcile(artifacts: readonly Artifact[]): Generator<AgentUpdate> {
    for (const artifact of artifacts) {
      const joined = this.#artifacts.get(artifact.artifactId) ?? this.#add(artifact)
      const { areFilesYielded } = joined
      const updates = this.#replace(joined, artifact.parts)
      // A snapshot repeats files. New files arrive as chunks, or in another artifact.
      joined.areFilesYielded = areFilesYielded
      yield* updates
    }
  }

  /** Call it at the end of the task. Yields files whose last chunk was not marked. */
  *finish(): Generator<AgentUpdate> {
    for (const joined of this.#artifacts.values()) yield* yieldFiles(joined)
  }

  #add({ artifactId, name }: Artifact): JoinedArtifact {
    const joined = {
      name: name || artifactId,
      parts: [],
      bytes: 0,
      text: '',
      areFilesYielded: false,
    }
    this.#artifacts.set(artifactId, joined)
    return joined
  }

  #append(joined: JoinedArtifact, parts: readonly Part[]): readonly AgentUpdate[] {
    this.#count(joined, countBytes(parts))
    for (const part of parts) joined.parts.push(part)
    const added = joinText(parts)
    joined.text += added
    return this.#textUpdates(joined, added)
  }

  #replace(joined: JoinedArtifact, parts: readonly Part[]): readonly AgentUpdate[] {
    this.#count(joined, countBytes(parts) - joined.bytes)
    const before = joined.text
    joined.parts = [...parts]
    joined.text = joinText(parts)
    joined.areFilesYielded = false
    // Other text replaced it: all of it is new.
    const isContinued = joined.text.startsWith(before)
    return this.#textUpdates(joined, isContinued ? joined.text.slice(before.length) : joined.text)
  }

  /** The text of another artifact begins after an empty line. */
  #textUpdates(joined: JoinedArtifact, added: string): readonly AgentUpdate[] {
    if (added === '') return []
    const before = this.#last === joined ? '' : separatorAfter(this.#last?.text ?? '')
    this.#last = joined
    return [{ type: 'text', text: before + added }]
  }

  /** Call it before anything is kept. */
  #count(joined: JoinedArtifact, more: number): void {
    this.#bytes += more
    joined.bytes += more
    if (this.#bytes <= this.#maxBytes) return
    throw new GatewayError('LIMIT', `An agent sent more than ${this.#maxBytes} bytes in one answer`)
  }
}

/** Returns the line breaks that are missing for an empty line after a text. */
function separatorAfter(text: string): string {
  if (text === '' || text.endsWith('\n\n')) return ''
  return text.endsWith('\n') ? '\n' : '\n\n'
}

function* yieldFiles(joined: JoinedArtifact): Generator<AgentUpdate> {
  if (joined.areFilesYielded) return
  joined.areFilesYielded = true
  for (const file of findFiles(joined.parts, joined.name)) yield { type: 'file', file }
}
