import type { Artifact, Part } from '@a2a-js/sdk'

import { GatewayError } from '../../errors.ts'
import type { AgentUpdate } from '../agent-update.ts'
import { bytesOf, filesOf, textOf } from './part-content.ts'

interface JoinedArtifact {
  readonly name: string
  parts: Part[]
  /** Of its parts. */
  bytes: number
  /** All text of its parts. */
  text: string
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
    const joined = this.#artifacts.get(artifact.artifactId) ?? this.#add(artifact)
    yield* append ? this.#append(joined, artifact.parts) : this.#replace(joined, artifact.parts)
    if (lastChunk && !this.#isGapped) yield* tellFiles(joined)
  }

  /**
   * Those of a snapshot of the task: only what was not told of them.
   *
   * @throws GatewayError `LIMIT`
   */
  *reconcile(artifacts: readonly Artifact[]): Generator<AgentUpdate> {
    for (const artifact of artifacts) {
      const joined = this.#artifacts.get(artifact.artifactId) ?? this.#add(artifact)
      const { areFilesTold } = joined
      const updates = this.#replace(joined, artifact.parts)
      // A snapshot repeats them; what is new comes as a chunk, or in another artifact.
      joined.areFilesTold = areFilesTold
      yield* updates
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
      areFilesTold: false,
    }
    this.#artifacts.set(artifactId, joined)
    return joined
  }

  #append(joined: JoinedArtifact, parts: readonly Part[]): readonly AgentUpdate[] {
    this.#count(joined, bytesOf(parts))
    for (const part of parts) joined.parts.push(part)
    const news = textOf(parts)
    joined.text += news
    return textUpdates(news)
  }

  #replace(joined: JoinedArtifact, parts: readonly Part[]): readonly AgentUpdate[] {
    this.#count(joined, bytesOf(parts) - joined.bytes)
    const told = joined.text
    joined.parts = [...parts]
    joined.text = textOf(parts)
    joined.areFilesTold = false
    // Replaced by something else: all of it is new.
    return textUpdates(joined.text.startsWith(told) ? joined.text.slice(told.length) : joined.text)
  }

  /** Before anything is kept. */
  #count(joined: JoinedArtifact, more: number): void {
    this.#bytes += more
    joined.bytes += more
    if (this.#bytes <= this.#maxBytes) return
    throw new GatewayError('LIMIT', `An agent made more than ${this.#maxBytes} bytes in one answer`)
  }
}

function textUpdates(text: string): readonly AgentUpdate[] {
  return text === '' ? [] : [{ type: 'text', text }]
}

function* tellFiles(joined: JoinedArtifact): Generator<AgentUpdate> {
  if (joined.areFilesTold) return
  joined.areFilesTold = true
  for (const file of filesOf(joined.parts, joined.name)) yield { type: 'file', file }
}
