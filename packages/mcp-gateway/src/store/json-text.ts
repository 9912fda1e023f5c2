/** @throws TypeError for what JSON has no text for */
export function jsonTextOf(value: unknown): string {
  const text: string | undefined = JSON.stringify(value)
  if (text === undefined) throw new TypeError('Only what JSON can hold can be stored')
  return text
}
