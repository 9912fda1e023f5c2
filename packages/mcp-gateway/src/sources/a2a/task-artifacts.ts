import type { Artifact, Part } from '@a2a-js/sdk'

import type { AgentUpdate } from '../../runs/agent-update.ts'
import { filesOf, textOf } from './part-content.ts'

interface JoinedArtifact {
  readonly name: string
  parts: readonly Part[]
  /** Of its text, how much was passed on. */
  told: string
  areFilesTold: boolean
}

/**
 * The artifacts of one task, by their ids: chunks are joined, and what is repeated (the last snapshot repeats all that
 * was streamed) is not told again. Text is told as it comes, files when they are whole.
 */
export class TaskArtifacts {
  readonly #artifacts = new Map<string, JoinedArtifact>();

  /** A chunk, or a whole artifact, of a stream. */
  *take(
    artifact: Artifact,
    { append, lastChunk }: { readonly append: boolean; readonly lastChunk: boolean },
  ): Generator<AgentUpdate> {
    const known = this.#artifacts.get(artifact.artifactId)
    if (known && append) known.parts = [...known.parts, ...artifact.parts]
    const joined = known && append ? known : this.#put(artifact)
    yield* tellText(joined)
    if (lastChunk) yield* tellFiles(joined)
  }

  /** Those of a snapshot of the task: only what was not told of them. */
  *reconcile(artifacts: readonly Artifact[]): Generator<AgentUpdate> {
    for (const artifact of artifacts) {
      const joined = this.#artifacts.get(artifact.artifactId) ?? this.#put(artifact)
      joined.parts = artifact.parts
      yield* tellText(joined)
    }
  }

  /** At the end of the task: files whose last chunk was never called that. */
  *finish(): Generator<AgentUpdate> {
    for (const joined of this.#artifacts.values()) yield* tellFiles(joined)
  }

  #put({ artifactId, name, parts }: Artifact): JoinedArtifact {
    const told = this.#artifacts.get(artifactId)?.told ?? ''
    const joined = { name: name || artifactId, parts, told, areFilesTold: false }
    this.#artifacts.set(artifactId, joined)
    return joined
  }
}

function* tellText(joined: JoinedArtifact): Generator<AgentUpdate> {
  const text = textOf(joined.parts)
  // Replaced by something else: all of it is new.
  const news = text.startsWith(joined.told) ? text.slice(joined.told.length) : text
  joined.told = text
  if (news !== '') yield { type: 'text', text: news }
}

function* tellFiles(joined: JoinedArtifact): Generator<AgentUpdate> {
  if (joined.areFilesTold) return
  joined.areFilesTold = true
  for (const file of filesOf(joined.parts, joined.name)) yield { type: 'file', file }
}
