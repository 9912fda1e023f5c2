/** A server that is measured. The README says what each is. */
export type ContenderName =
  | 'control'
  | 'gateway'
  | 'gateway-200'
  | 'gateway-debounced'
  | 'gateway-later'
  | 'gateway-open'
  | 'gateway-plain'
  | 'sdk-v2'
  | 'sdk-v2-200'
  | 'sdk-v2-later'
  | 'sdk-v2-low'
  | 'sdk-v2-resumable'
  | 'sdk-v1'
  | 'fastmcp'
  | 'fastmcp-later'
  | 'mastra'

export const CONTENDERS: readonly ContenderName[] = [
  'control',
  'gateway',
  'gateway-200',
  'gateway-debounced',
  'gateway-later',
  'gateway-open',
  'gateway-plain',
  'sdk-v2',
  'sdk-v2-200',
  'sdk-v2-later',
  'sdk-v2-low',
  'sdk-v2-resumable',
  'sdk-v1',
  'fastmcp',
  'fastmcp-later',
  'mastra',
]

/** @throws TypeError for anything else */
export function contenderNameFrom(value: unknown): ContenderName {
  const name = CONTENDERS.find((each) => each === value)
  if (name === undefined) throw new TypeError(`There is no contender "${String(value)}"`)
  return name
}

/** Whether its tools answer one turn after they were called: what takes longer than that takes the same way. */
export function isLater(name: ContenderName): boolean {
  return name.endsWith('-later')
}

/** How many tools it has. */
export function toolsOf(name: ContenderName): number {
  return name.endsWith('-200') ? 200 : 10
}
