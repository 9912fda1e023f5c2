/** One version of a file, as its owner may see it. */
export interface Artifact {
  /** Of the latest version, whichever that is. */
  readonly uri: string
  /** Of this version. */
  readonly versionUri: string
  readonly scope: string
  readonly name: string
  /** As the agent or the client called it, in one line. */
  readonly title: string
  readonly version: number
  readonly mimeType: string
  /** bytes */
  readonly size: number
  /** hex */
  readonly sha256: string
  /** The run that made it; none for an upload. */
  readonly runId?: string | undefined
  /** Milliseconds since 1970. */
  readonly createdAt: number
  readonly expiresAt: number
}

/** A file that is to be kept, as a new name or as the next version of one. */
export interface NewArtifact {
  /** Made safe where it becomes part of a URI. */
  readonly name: string
  /** What the bytes contradict is put right. @default by the name, else by the bytes */
  readonly mimeType?: string | undefined
  readonly bytes: AsyncIterable<Uint8Array>
  /** Of this one. @default what all files may have, which is the most */
  readonly maxBytes?: number | undefined
  readonly runId?: string | undefined
  /** An earlier scope of the caller's. @default the caller's own, or a new one */
  readonly scope?: string | undefined
}

/** Something that whoever follows an artifact, or lists their artifacts, may want to know. */
export interface ArtifactChange {
  /** Without a version. */
  readonly uri: string
  readonly scope: string
  /** The list it belongs to: compare with `Artifacts.listOf(caller)`. */
  readonly list: string
  /** The list has another entry, or one less. */
  readonly isListChange: boolean
  /** There is something new to read. */
  readonly isUpdate: boolean
}
