import type {
  CompleteResult,
  ListResourcesResult,
  ListResourceTemplatesResult,
  ReadResourceResult,
} from '@modelcontextprotocol/server'

import type { ArtifactCaller } from './artifact-caller.ts'

interface ReadResource {
  readonly contents: ReadResourceResult['contents']
  /** Milliseconds for which it cannot become another. @default 0: it may at any time */
  readonly fixedMs?: number | undefined
}

/** What a gateway has to read, for one caller at a time. Each throws `ResourceNotFoundError` for what is not the caller's. */
export interface ResourceHandlers {
  /** @throws ProtocolError -32602 for a cursor of no list of this caller */
  list(caller: ArtifactCaller, cursor: string | undefined): Promise<ListResourcesResult>
  templates(caller: ArtifactCaller): Promise<ListResourceTemplatesResult>
  /** @param check called before the bytes are read: throws if the answer is not wanted, or there is no memory for it */
  read(caller: ArtifactCaller, uri: string, check: () => void): Promise<ReadResource>
  /** Which list the caller reads: changes of it are told by this name. @default none */
  listOf(caller: ArtifactCaller): string | undefined
  /** The URI by which changes of this resource are told; `undefined`: it is not the caller's. */
  followed(caller: ArtifactCaller, uri: string): Promise<string | undefined>
  /** Values for a variable of a template. @default the capability is not declared */
  complete?(caller: ArtifactCaller, asked: CompletedVariable): Promise<CompleteResult['completion']>
}

interface CompletedVariable {
  readonly template: string
  /** Of the variable. */
  readonly name: string
  /** As far as it is there. */
  readonly value: string
  /** Other variables, as they were chosen before. @default none were */
  readonly given?: Readonly<Record<string, string>> | undefined
}
