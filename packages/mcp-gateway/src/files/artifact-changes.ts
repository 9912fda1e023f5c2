import { isRecord } from '@x/internal'
import type { Messages } from '../store/gateway-store.ts'
import type { IndexChange } from './records/artifact-index.ts'
import { artifactUriOf } from './artifact-uri.ts'
import type { ArtifactChange } from './artifact.ts'

const TOPIC = 'artifacts'

/** Changes of artifacts, as all processes that share the store tell them each other. */
export class ArtifactChanges {
  readonly #messages: Messages
  readonly #uriScheme: string

  constructor(messages: Messages, uriScheme: string) {
    this.#messages = messages
    this.#uriScheme = uriScheme
  }

  /** Never rejects: what changed is stored, and stays so if nobody can be told now. */
  async tell({ scope, name, list, version, isNewName }: IndexChange): Promise<void> {
    const isUpdate = version !== undefined
    const change: ArtifactChange = {
      uri: artifactUriOf({ scope, name }, this.#uriScheme),
      scope,
      list,
      isUpdate,
      isListChange: isNewName || !isUpdate,
    }
    await this.#messages.publish(TOPIC, change).catch(() => {})
  }

  /** `onGap`: of some nothing may have been heard. @returns the end of it */
  hear(listener: (change: ArtifactChange) => void, onGap?: () => void): Promise<() => void> {
    const hear = (message: unknown): void => {
      const change = changeFrom(message)
      if (change) listener(change)
    }
    return this.#messages.subscribe(TOPIC, hear, onGap)
  }
}

function changeFrom(message: unknown): ArtifactChange | undefined {
  if (!isRecord(message)) return undefined
  const { uri, scope, list, isListChange, isUpdate } = message
  if (typeof uri !== 'string' || typeof scope !== 'string' || typeof list !== 'string')
    return undefined
  return { uri, scope, list, isListChange: isListChange === true, isUpdate: isUpdate === true }
}
