# Generators and real trainers; saved captures small enough to ship.
