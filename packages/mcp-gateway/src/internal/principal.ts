import { hashOf } from './text.ts'

/** The verified caller of a request. Comes from a credential, never from what a client says about itself. */
export interface Principal {
  /** Stable: `issuer|claim`, the name of a static token, or the id of all anonymous callers. Keys of stored data contain it. */
  readonly id: string
  /** Scopes of the credential. */
  readonly scopes: readonly string[]
  /** True for a caller that was not verified. Such callers share one id, and have separate handles that cannot be guessed. */
  readonly isAnonymous: boolean
  /** Claims of the token, for agents that need more than the id. Never logged. */
  readonly claims: Readonly<Record<string, unknown>>
}

/** Returns the principal of all callers of a gateway without `auth`. It has all scopes. */
export function anonymousPrincipal(): Principal {
  return { id: 'mcp_user', scopes: ['*'], isAnonymous: true, claims: {} }
}

/**
 * Returns whether a principal has a scope. `*` is every scope.
 *
 * @example
 * ```ts
 * import { isAllowed } from '@x/mcp-gateway'
 *
 * const ada = { id: 'ada', scopes: ['agent:support:call'], isAnonymous: false, claims: {} }
 * isAllowed(ada, 'agent:support:call') // true
 * ```
 */
export function isAllowed(principal: Principal, scope: string): boolean {
  return principal.scopes.includes(scope) || principal.scopes.includes('*')
}

/**
 * Whether a caller was admitted, and not refused with a response. `instanceof Response` would not do: a server may replace
 * that class while the process runs (`@hono/node-server` 1 does), and a refusal would pass for a caller.
 */
export function isPrincipal(answer: Principal | object): answer is Principal {
  return (
    'id' in answer &&
    typeof answer.id === 'string' &&
    'scopes' in answer &&
    Array.isArray(answer.scopes)
  )
}

/** Who sends a request. */
export interface Caller {
  readonly principal: Principal
  /** Secret of the session, for callers without a name: the id of the scope of its files. */
  readonly scope?: string | undefined
  /** IP address. Usage of callers without a name is counted by it. */
  readonly address?: string | undefined
  /** Returns true if there is memory for a response to this account (see `accountOf()`). @default always */
  readonly hasRoom?: ((account: string) => boolean) | undefined
}

/** Hashes of callers with a name. Requests with one credential often share the object of their principal. */
type Hashes = WeakMap<Principal, string>
const owners: Hashes = new WeakMap()
const accounts: Hashes = new WeakMap()

function hashOnce(hashes: Hashes, principal: Principal, value: unknown): string {
  const hash = hashes.get(principal) ?? hashOf(value)
  hashes.set(principal, hash)
  return hash
}

/**
 * Returns the owner of what a caller makes, such as tasks and files: a hash of the principal, or of the session of a caller
 * without a name. `undefined`: nothing shows that two requests are of the same caller.
 */
export function ownerOf({ principal, scope }: Caller): string | undefined {
  if (principal.isAnonymous) return scope === undefined ? undefined : hashOf([principal.id, scope])
  return hashOnce(owners, principal, [principal.id, null])
}

/** Returns the account in which the usage of a caller is counted: of its name, or of its network if it has no name. */
export function accountOf({ principal, address }: Caller): string {
  const hasAddress = principal.isAnonymous && address !== undefined
  return hasAddress ? `address\0${subnetOf(address)}` : `principal\0${principal.id}`
}

/** Returns the hash of the account of a caller, for stored data. Callers without a name may share an owner. */
export function accountHashOf(caller: Caller): string {
  const { principal } = caller
  const account = accountOf(caller)
  return principal.isAnonymous ? hashOf(account) : hashOnce(accounts, principal, account)
}

/** Returns the network of an address. For IPv6 that is the /64, because one customer can use all its addresses. */
export function subnetOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined || !address.includes(':')) return mapped ?? address
  const [head = '', tail] = (address.split('%')[0] ?? '').toLowerCase().split('::')
  const groups = head === '' ? [] : head.split(':')
  const behind = tail === undefined || tail === '' ? [] : tail.split(':')
  if (tail !== undefined) groups.push(...Array<string>(8 - groups.length - behind.length).fill('0'))
  const first = [...groups, ...behind].slice(0, 4)
  return `${first.map((group) => group.replace(/^0+(?=.)/, '')).join(':')}::/64`
}

/** Returns whether a caller has all scopes that something needs, such as a tool. */
export function mayUse(principal: Principal, needed: Pick<Principal, 'scopes'>): boolean {
  return needed.scopes.every((scope) => isAllowed(principal, scope))
}
