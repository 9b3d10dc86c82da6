# awk -f count.awk *.trs: prints "passed failed skipped". A cmocka program counts as its test functions (taken from the
# .log beside the .trs), any other test as one.

function finish() {
  if (result == "") return
  inner_failed = runs - oks - skips
  if (runs == 0) {
    if (result ~ /^(PASS|XFAIL)$/) passed++
    else if (result == "SKIP") skipped++
    else failed++
  } else {
    passed += oks
    skipped += skips
    # A program that fails beside its tests (a leak, a crash at exit) is one failure more.
    failed += inner_failed > 0 || result ~ /^(PASS|XFAIL|SKIP)$/ ? inner_failed : 1
  }
  result = ""
}

FNR == 1 {
  finish()
  runs = oks = skips = 0
  split("", skipped_names)
  log_file = FILENAME
  sub(/trs$/, "log", log_file)
  while ((getline line < log_file) > 0) {
    if (line ~ /^\[ RUN      \] /) runs++
    else if (line ~ /^\[       OK \] /) oks++
    else if (line ~ /^\[  SKIPPED \] / && line !~ /test\(s\)/ && !(line in skipped_names)) {
      skipped_names[line]
      skips++
    }
  }
  close(log_file)
}

/^:test-result:/ { result = $2 }

END {
  finish()
  print passed + 0, failed + 0, skipped + 0
}
