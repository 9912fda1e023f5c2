/** What is called through the gateway, and directly. The README says what each is. */
export type OverheadName = 'langgraph' | 'a2a' | 'a2a-unary'

export const OVERHEADS: readonly OverheadName[] = ['langgraph', 'a2a', 'a2a-unary']

/** @throws TypeError for anything else */
export function overheadNameFrom(value: unknown): OverheadName {
  const name = OVERHEADS.find((each) => each === value)
  if (name === undefined) throw new TypeError(`Nothing is called "${String(value)}"`)
  return name
}
