import type { ContentBlock, ResourceLink } from '@modelcontextprotocol/server'

import type { Caller } from '../internal/principal.ts'

/** Stores the files of runs, and shows them in results. */
export interface ResultFiles {
  /** Opens the files of one run, before its agent starts. Does nothing until the first file. */
  open(run: ResultFilesContext): RunFiles
  /** Returns files that a caller gives to an agent. @throws GatewayError `NOT_FOUND`, with the index of the file */
  input(caller: Caller, uris: readonly string[]): Promise<readonly InputFile[]>
}

export interface ResultFilesContext {
  readonly runId: string
  readonly agentId: string
  readonly caller: Caller
  /** Files of the same run from before it was paused. */
  readonly earlier: EarlierFiles | undefined
  readonly signal: AbortSignal
}

/** The files of one run, in the order in which they were written. */
export interface RunFiles extends AgentArtifacts {
  /** Maximum bytes of the whole result as JSON. */
  readonly resultMaxBytes: number
  /**
   * Returns content blocks for these files and those of earlier rounds: inline within the limits, else links. They have at
   * most `maxBytes` bytes as JSON.
   */
  blocks(maxBytes?: number): Promise<readonly ContentBlock[]>
  /**
   * Stores a file of the gateway itself, which `blocks` does not show, and returns its link. `undefined` if files are not
   * stored.
   *
   * @throws GatewayError as `write`
   */
  keep(file: OwnFile): Promise<ResourceLink | undefined>
  /** Returns what another process needs to continue with these files after the run was paused. */
  soFar(): Promise<EarlierFiles>
}

export interface OwnFile {
  readonly name: string
  readonly data: AsyncIterable<Uint8Array>
}

/** Files from before a run was paused. Small JSON: large files are links. */
export interface EarlierFiles {
  readonly blocks: readonly ContentBlock[]
  /** Keys of the files that are shown: an agent that repeats a step writes the same files again. */
  readonly shown: readonly string[]
  /** Scope for the next files, for callers without a name and without a session. */
  readonly scope?: string | undefined
}

/** A file of the caller. It is read only when it is needed. */
export interface InputFile {
  readonly uri: string
  readonly name: string
  readonly mimeType: string
  /** bytes */
  readonly size: number
  read(signal?: AbortSignal): AsyncIterable<Uint8Array>
}

export interface ArtifactWriter {
  /** Stores a version of a file, and returns its URI. @throws GatewayError `QUOTA` */
  write(file: OutputFile): Promise<{ readonly uri: string; readonly version: number }>
}

/**
 * The files that an agent wrote for a caller, also in earlier calls: for the principal, or in the session of a caller
 * without a name. An agent does not see files of other agents or uploads.
 */
export interface AgentArtifacts extends ArtifactWriter {
  /** Returns a file by the name under which the agent wrote it. `undefined`: there is none, or it has expired. @param version @default the latest */
  read(name: string, version?: number): Promise<InputFile | undefined>
  /** Returns the latest version of each file, in the order of the names. */
  list(): Promise<readonly StoredFile[]>
}

export interface StoredFile {
  readonly uri: string
  readonly name: string
  readonly version: number
  readonly mimeType: string
  /** bytes */
  readonly size: number
  /** Milliseconds since 1970. */
  readonly createdAt: number
}

/** A file that an agent wrote: its bytes or their URL. */
export interface OutputFile {
  /** May be any text: the name in the URI is made from it. */
  readonly name: string
  readonly mimeType?: string | undefined
  readonly data: Uint8Array | AsyncIterable<Uint8Array> | { readonly url: string }
}
