/** @throws TypeError for a value that JSON cannot hold, such as `undefined` */
export function toJsonText(value: unknown): string {
  const text: string | undefined = JSON.stringify(value)
  if (text === undefined) throw new TypeError('Only values that JSON can hold can be stored')
  return text
}
