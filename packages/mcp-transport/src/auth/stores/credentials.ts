import type { StoredCredentials } from './stored-credentials.ts'
import type { TokenStore } from './token-store.ts'

/** A store whose changes come one after the other, so that none undoes another. */
export class Credentials {
  readonly #store: TokenStore
  #last: Promise<void> = Promise.resolve()

  constructor(store: TokenStore) {
    this.#store = store
  }

  async read(): Promise<StoredCredentials> {
    return (await this.#store.read()) ?? { v: 1 }
  }

  /** `TokenStore.exclusively` */
  exclusively(work: () => Promise<void>): Promise<void> {
    return this.#store.exclusively?.(work) ?? work()
  }

  /** Explicit `undefined` takes a part away. */
  async update(change: Partial<Omit<StoredCredentials, 'v'>>): Promise<void> {
    const before = this.#last
    const update = (async () => {
      await before
      await this.#store.write({ ...(await this.read()), ...change })
    })()
    this.#last = update.catch(() => {}) // told to whoever wanted it
    await update
  }
}
