import { createHash } from 'node:crypto'

import { abortable } from '../internal/abortable.ts'
import { artifactNameFrom, artifactTitleFrom } from './artifact-name.ts'
import { encodedName } from './artifact-uri.ts'
import { GatewayError } from '../errors.ts'
import type { FileKeeper, GivenFile, TakenFile } from './file-keeper.ts'

export interface UnkeptFilesOptions {
  /** Of one file. */
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** Where nothing is kept: files pass by, and only the result has them. */
export class UnkeptFiles implements FileKeeper {
  readonly #options: UnkeptFilesOptions
  readonly #versions = new Map<string, number>()

  constructor(options: UnkeptFilesOptions) {
    this.#options = options
  }

  async write(file: GivenFile): Promise<TakenFile> {
    const { maxBytes, signal } = this.#options
    const digest = createHash('sha256')
    let size = 0
    for await (const chunk of abortable(file.data, signal)) {
      size += chunk.byteLength
      if (size > maxBytes) throw new GatewayError('LIMIT', `A file may have ${maxBytes} bytes`)
      digest.update(chunk)
    }
    const name = artifactNameFrom(file.name)
    const version = (this.#versions.get(name) ?? 0) + 1
    this.#versions.set(name, version)
    const uri = `inline:///${encodedName(name)}`
    return {
      name,
      title: artifactTitleFrom(file.name),
      mimeType: file.mimeType,
      size,
      sha256: digest.digest('hex'),
      version,
      uri,
      versionUri: `${uri}?version=${version}`,
      isUnkept: true,
    }
  }
}
