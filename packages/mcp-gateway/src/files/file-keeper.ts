import type { Artifact } from './artifact.ts'

/** Takes the files of one run. */
export interface FileKeeper {
  /** Where they go, if others have to know. */
  readonly scope?: string | undefined
  /** @throws GatewayError `QUOTA`, `LIMIT`, `NOT_FOUND` (not a scope of the caller's); the reason of the run's signal */
  write(file: GivenFile): Promise<TakenFile>
}

/** A file whose type is known. */
export interface GivenFile {
  readonly name: string
  readonly mimeType: string
  readonly data: AsyncIterable<Uint8Array>
}

export interface TakenFile extends Pick<
  Artifact,
  'name' | 'title' | 'mimeType' | 'size' | 'sha256' | 'version' | 'uri' | 'versionUri'
> {
  /** Nobody can read it later: it is shown now, or not at all. @default false */
  readonly isUnkept?: boolean | undefined
}
