import { AsyncLocalStorage } from 'node:async_hooks'

/**
 * Returns the storage of that name, which all copies of a package in this process share: npm may install a package
 * twice. The name ends in a number: count it up when the stored values change in a way that older copies cannot read.
 */
export function sharedStorage<T>(name: string): AsyncLocalStorage<T> {
  const key = Symbol.for(name)
  const known: unknown = Reflect.get(globalThis, key)
  if (known instanceof AsyncLocalStorage) return known
  const storage = new AsyncLocalStorage<T>()
  Object.defineProperty(globalThis, key, { value: storage })
  return storage
}
