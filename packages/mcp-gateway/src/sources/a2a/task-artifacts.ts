import type { Artifact, Part } from '@a2a-js/sdk'

import { GatewayError } from '../../gateway-error.ts'
import type { AgentUpdate } from '../../runs/agent-update.ts'
import { bytesOf, filesOf, textOf } from './part-content.ts'

interface JoinedArtifact {
  readonly name: string
  parts: Part[]
  /** Of its parts. */
  bytes: number
  /** All text of its parts. */
  text: string
  /** Of its text, how much was passed on. */
  told: string
  areFilesTold: boolean
}

/**
 * The artifacts of one task, by their ids: chunks are joined, and what is repeated (the last snapshot repeats all that
 * was streamed) is not told again. Text is told as it comes, files when they are whole.
 */
export class TaskArtifacts {
  readonly #artifacts = new Map<string, JoinedArtifact>()
  readonly #maxBytes: number
  #bytes = 0
  #isGapped = false

  /** @param maxBytes of all artifacts together */
  constructor(maxBytes = 67_108_864) {
    this.#maxBytes = maxBytes
  }

  /** All text of all artifacts, in the order in which they came. */
  get text(): string {
    return [...this.#artifacts.values()].map(({ text }) => text).join('')
  }

  /** Chunks may have been missed: no file counts as whole before the end. */
  noteGap(): void {
    this.#isGapped = true
  }

  /**
   * A chunk, or a whole artifact, of a stream.
   *
   * @throws GatewayError `LIMIT`
   */
  *take(
    artifact: Artifact,
    { append, lastChunk }: { readonly append: boolean; readonly lastChunk: boolean },
  ): Generator<AgentUpdate> {
    const known = this.#artifacts.get(artifact.artifactId)
    const joined = known ?? this.#add(artifact)
    if (known && append) this.#append(known, artifact.parts)
    else this.#replace(joined, artifact.parts)
    yield* tellText(joined)
    if (lastChunk && !this.#isGapped) yield* tellFiles(joined)
  }

  /**
   * Those of a snapshot of the task: only what was not told of them.
   *
   * @throws GatewayError `LIMIT`
   */
  *reconcile(artifacts: readonly Artifact[]): Generator<AgentUpdate> {
    for (const artifact of artifacts) {
      const known = this.#artifacts.get(artifact.artifactId)
      const joined = known ?? this.#add(artifact)
      const { areFilesTold } = joined
      this.#replace(joined, artifact.parts)
      // A snapshot repeats them; what is new comes as a chunk, or in another artifact.
      joined.areFilesTold = areFilesTold
      yield* tellText(joined)
    }
  }

  /** At the end of the task: files whose last chunk was never called that. */
  *finish(): Generator<AgentUpdate> {
    for (const joined of this.#artifacts.values()) yield* tellFiles(joined)
  }

  #add({ artifactId, name }: Artifact): JoinedArtifact {
    const joined = {
      name: name || artifactId,
      parts: [],
      bytes: 0,
      text: '',
      told: '',
      areFilesTold: false,
    }
    this.#artifacts.set(artifactId, joined)
    return joined
  }

  #append(joined: JoinedArtifact, parts: readonly Part[]): void {
    this.#count(joined, bytesOf(parts))
    joined.parts.push(...parts)
    joined.text += textOf(parts)
  }

  #replace(joined: JoinedArtifact, parts: readonly Part[]): void {
    this.#count(joined, bytesOf(parts) - joined.bytes)
    joined.parts = [...parts]
    joined.text = textOf(parts)
    joined.areFilesTold = false
  }

  /** Before anything is kept. */
  #count(joined: JoinedArtifact, more: number): void {
    this.#bytes += more
    joined.bytes += more
    if (this.#bytes <= this.#maxBytes) return
    throw new GatewayError('LIMIT', `An agent made more than ${this.#maxBytes} bytes in one answer`)
  }
}

function* tellText(joined: JoinedArtifact): Generator<AgentUpdate> {
  const { text, told } = joined
  // Replaced by something else: all of it is new.
  const news = text.startsWith(told) ? text.slice(told.length) : text
  joined.told = text
  if (news !== '') yield { type: 'text', text: news }
}

function* tellFiles(joined: JoinedArtifact): Generator<AgentUpdate> {
  if (joined.areFilesTold) return
  joined.areFilesTold = true
  for (const file of filesOf(joined.parts, joined.name)) yield { type: 'file', file }
}
