import { isRecord } from '@x/internal'
import type { Clock } from '../internal/clock.ts'
import type { Values, Versioned } from '../store/gateway-store.ts'
import { ownerKey, type StickyName } from './name-plan.ts'

export interface AnnouncedNamesOptions {
  readonly values: Values
  /** Names hold among plans that are made by the same rules. */
  readonly rules: string
  readonly ttlMs: number
  readonly clock: Clock
}

/** Names as they were read, and what a later write has to find unchanged. */
export interface NamesSnapshot {
  readonly names: readonly StickyName[]
  readonly entries: readonly Entry[]
  readonly version: string | null
}

interface Entry extends StickyName {
  readonly lastAt: number
}

/** Owners that left are forgotten early, beyond so many: a name costs memory in every process. */
const MAX_ENTRIES = 5000

/** Names of tools that were announced, kept where other processes and the next start find them. */
export class AnnouncedNames {
  readonly #values: Values
  readonly #key: string
  readonly #ttlMs: number
  readonly #clock: Clock

  constructor({ values, rules, ttlMs, clock }: AnnouncedNamesOptions) {
    this.#values = values
    this.#key = `tool-names/${rules}`
    this.#ttlMs = ttlMs
    this.#clock = clock
  }

  async load(): Promise<NamesSnapshot> {
    const found: Versioned | undefined = await this.#values.get(this.#key)
    const stored: readonly unknown[] = Array.isArray(found?.value) ? found.value : []
    const entries = stored
      .map(entryFrom)
      .filter((entry) => entry !== undefined)
      .filter(({ lastAt }) => this.#clock.now() - lastAt < this.#ttlMs)
    return { names: entries, entries, version: found?.version ?? null }
  }

  /** @returns whether it holds; else another process was faster, and names are to be given anew */
  async save(names: readonly StickyName[], { entries, version }: NamesSnapshot): Promise<boolean> {
    const now = this.#clock.now()
    const before = new Map(entries.map((entry) => [ownerKey(entry), entry]))
    const isKept = names.every((name) => {
      const entry = before.get(ownerKey(name))
      return isSame(entry, name) && now - (entry?.lastAt ?? 0) < this.#ttlMs / 4
    })
    if (isKept) return true
    const live = new Set(names.map(ownerKey))
    const taken = new Set(names.map(({ name }) => name))
    const away = entries.filter((each) => !live.has(ownerKey(each)) && !taken.has(each.name))
    const next = [
      ...names.map(({ name, agentId, skillId, wanted }) => ({
        name,
        agentId,
        skillId,
        wanted,
        lastAt: now,
      })),
      ...away.toSorted((a, b) => b.lastAt - a.lastAt),
    ].slice(0, Math.max(MAX_ENTRIES, names.length))
    const options = { ttlMs: this.#ttlMs, ifVersion: version }
    return (await this.#values.put(this.#key, next, options)) !== undefined
  }
}

function isSame(entry: StickyName | undefined, name: StickyName): boolean {
  return entry?.name === name.name && entry.wanted === name.wanted
}

function entryFrom(value: unknown): Entry | undefined {
  if (!isRecord(value)) return undefined
  const { name, agentId, skillId, wanted, lastAt } = value
  if (typeof name !== 'string' || !/^[A-Za-z0-9_.-]{1,128}$/.test(name)) return undefined
  if (typeof agentId !== 'string' || typeof skillId !== 'string') return undefined
  if (typeof wanted !== 'string' || typeof lastAt !== 'number') return undefined
  return { name, agentId, skillId, wanted, lastAt }
}
