import type { DebugStateStore } from '../server/debug-state-store.ts'
import { MemoryDebugStateStore } from '../server/memory-debug-state-store.ts'
import { CommandError, lineFrom, UsageError } from './command-error.ts'
import type { StoreSettings } from './serve-settings.ts'

/**
 * Opens a store, and asks it once: a service that cannot keep anything does not start.
 *
 * @throws CommandError in the words of the store
 */
export async function openStore(settings: StoreSettings): Promise<DebugStateStore> {
  const store = await storeFrom(settings)
  try {
    await store.list('health', 1)
    return store
  } catch (cause) {
    await store.close()
    throw new CommandError(lineFrom(cause), { cause })
  }
}

async function storeFrom(settings: StoreSettings): Promise<DebugStateStore> {
  switch (settings.kind) {
    case 'memory':
      return new MemoryDebugStateStore()
    case 'redis': {
      const { RedisDebugStateStore } = await import('../server/redis-debug-state-store.ts')
      try {
        return new RedisDebugStateStore({ url: settings.url })
      } catch (cause) {
        throw new UsageError('--redis-url takes redis://host:port, or rediss:// for TLS', { cause })
      }
    }
    case 'sqlite': {
      const { SqliteDebugStateStore } = await import('../server/sqlite-debug-state-store.ts')
      try {
        return new SqliteDebugStateStore(settings.file, { synchronous: settings.synchronous })
      } catch (cause) {
        throw new CommandError(lineFrom(cause), { cause })
      }
    }
  }
}
