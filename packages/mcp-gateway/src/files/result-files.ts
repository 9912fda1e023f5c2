import type { ContentBlock, ResourceLink } from '@modelcontextprotocol/server'

import type { Principal } from '../internal/principal.ts'

/** Keeps the files that runs make, and shows them in results. */
export interface ResultFiles {
  /** For one run, before its agent starts. Does nothing until the first file. */
  open(run: ResultFilesContext): RunFiles
}

export interface ResultFilesContext {
  readonly runId: string
  readonly agentId: string
  readonly principal: Principal
  /** @default made with the first file */
  readonly scope?: string | undefined
  /** Of the session, for callers without a name that have one. */
  readonly sessionScope?: string | undefined
  /** Of the network: files of callers without a name are counted by it. */
  readonly address?: string | undefined
  readonly clientName?: string | undefined
  /** Of the same run, before it was answered. @default none */
  readonly earlier?: EarlierFiles | undefined
  readonly signal: AbortSignal
}

/** The files of one run, in the order in which they appeared. */
export interface RunFiles extends AgentArtifacts {
  /** Bytes that the whole result may have as JSON. */
  readonly resultMaxBytes: number
  /**
   * Returns content blocks for these files and those of earlier rounds: inline within the limits, else links. They have at
   * most `maxBytes` bytes as JSON.
   */
  blocks(maxBytes?: number): Promise<readonly ContentBlock[]>
  /**
   * Keeps a file of the gateway's own, which `blocks` does not show, and returns its link; `undefined` if no files are
   * kept.
   *
   * @throws GatewayError as `write`
   */
  keep(file: OwnFile): Promise<ResourceLink | undefined>
  /** What another process needs to go on with them, once the run is answered. */
  soFar(): Promise<EarlierFiles>
}

export interface OwnFile {
  readonly name: string
  readonly data: AsyncIterable<Uint8Array>
}

/** Files that a run made before it asked. JSON, and not large: what is large among them is a link by now. */
export interface EarlierFiles {
  readonly blocks: readonly ContentBlock[]
  /** Stands for each that is shown: an agent that begins a step again makes the same files again. */
  readonly shown: readonly string[]
  /** Where the others go, for callers that have nothing else in common with them. */
  readonly scope?: string | undefined
}

/** A file of the caller's, by its artifact. Read only when it is needed. */
export interface InputFile {
  readonly uri: string
  readonly name: string
  readonly mimeType: string
  /** bytes */
  readonly size: number
  read(signal?: AbortSignal): AsyncIterable<Uint8Array>
}

export interface ArtifactWriter {
  /** Stores a version of a file, and tells its URI. @throws GatewayError `QUOTA` */
  write(file: OutputFile): Promise<{ readonly uri: string; readonly version: number }>
}

/**
 * The files that an agent wrote for a caller, also in earlier calls: in the scope that the call names, else in the session
 * of a caller without a name, else for the principal. An agent does not see files of other agents or uploads.
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

/** A file that an agent made: its bytes, or where they are. */
export interface OutputFile {
  /** As the agent calls it; made safe where it becomes part of a URI. */
  readonly name: string
  readonly mimeType?: string | undefined
  readonly data: Uint8Array | AsyncIterable<Uint8Array> | { readonly url: string }
}
